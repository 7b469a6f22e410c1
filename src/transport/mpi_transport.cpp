// Messages over MPI, in pieces of at most P bytes (below the size at which MPI itself begins to ask before it sends):
//
//   message of 2.5 pieces:  [ full ][ full ][ half ]      a piece that is not full ends the message,
//   message of 2 pieces:    [ full ][ full ][ empty ]     so the receiver needs no length in advance
//
// Receives are given to MPI before their message comes, so that it is put where it belongs and not aside. But a message
// may be longer than its buffer, and MPI is not to be relied on then: Open MPI 4.1 reports a truncation, having
// written the whole message behind the buffer (from 64 KiB on over TCP, from 4 KiB on in shared memory). So whatever is
// given to MPI has room for a whole piece: the caller's buffer where that is long enough, else a slot's own memory,
// from which the piece is copied. No sender sends longer ones.
//
//   waiting:  [ receive A ][ receive B ][ receive C ] ...    of one rank and tag, in order
//   slots:    [   MPI    ][   MPI    ][   MPI    ]          given to MPI in the same order, a piece each
//
// Which slot belongs to which receive is a guess, right as long as messages are as long as their receives expect: what
// has come is worked off in order, and where the guess was wrong a piece is copied from the memory of a later receive.
// No buffer is given to MPI twice at a time: the second piece would come over the first before that is copied.
//
// MPI moves nothing but in its own calls, and one call moves everything. A thread that tests many transfers in turns
// makes one such call a turn: a test that finds that others have called MPI since its last look does not call again.
// MPI cannot be waited on by a thread that wants to do something else: wait_for_activity() tests and naps in turns.
#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "cluster/limits.h"
#include "cluster/mpi_runtime.h"
#include "kolo/error.h"
#include "transport/mpi_pieces.h"

namespace kolo::transport {
namespace {

using cluster::check_mpi;
using cluster::MpiTurn;

constexpr std::chrono::microseconds kShortestNap{20};
constexpr std::chrono::microseconds kLongestNap{1000};
constexpr std::size_t kMostSlots = 16;  // of one rank and tag
constexpr std::chrono::milliseconds kRetraction{100};

// The largest tag that this MPI takes, or Transport does. REQUIRES: a turn is not held.
Tag last_mpi_tag() {
  const MpiTurn turn;
  int found = 0;
  int* upper_bound = nullptr;
  check_mpi(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, static_cast<void*>(&upper_bound), &found), "MPI_TAG_UB");
  constexpr int kEveryMpi = 32767;
  return found == 0 ? kEveryMpi : static_cast<Tag>(std::clamp(*upper_bound, kEveryMpi, static_cast<int>(kLastTag)));
}

struct MpiSend {
  std::size_t size = 0;
  std::size_t pieces_left = 0;
  std::string error;  // what MPI said
  [[nodiscard]] bool done() const noexcept { return pieces_left == 0; }
};

struct MpiReceive {
  Rank from = 0;
  Tag tag = 0;
  std::span<std::byte> into;
  std::size_t size = 0;  // so far
  bool abandoned = false;
  bool done = false;
  std::string error;
};

// A piece that MPI may receive at any time.
struct Slot {
  std::byte* at = nullptr;              // room for a whole piece
  const MpiReceive* owner = nullptr;    // in whose buffer that is; null: in `memory`
  std::unique_ptr<std::byte[]> memory;  // made when first needed
  std::size_t size = 0;                 // what came
  bool done = false;
  std::string error;
};

// What comes from one rank with one tag. A slot for each of the first receives that are waiting, or fewer.
struct Channel {
  std::vector<std::shared_ptr<MpiReceive>> waiting;  // the first one may have got pieces already
  std::vector<std::unique_ptr<Slot>> slots;
};
using Key = std::pair<Rank, Tag>;

class MpiTransport;

class MpiTransfer final : public Transfer {
 public:
  MpiTransfer(MpiTransport& transport, std::shared_ptr<MpiSend> send, std::uint64_t calls)
      : transport_(transport), send_(std::move(send)), calls_seen_(calls) {}
  MpiTransfer(MpiTransport& transport, std::shared_ptr<MpiReceive> receive, std::uint64_t calls)
      : transport_(transport), receive_(std::move(receive)), calls_seen_(calls) {}
  ~MpiTransfer() override;
  bool test() override;
  [[nodiscard]] std::size_t size() const noexcept override { return send_ ? send_->size : receive_->size; }

 private:
  [[nodiscard]] bool done() const noexcept { return send_ ? send_->done() : receive_->done; }

  MpiTransport& transport_;
  std::shared_ptr<MpiSend> send_;  // one of the two; shared with the transport, which keeps what is abandoned
  std::shared_ptr<MpiReceive> receive_;
  std::uint64_t calls_seen_;
};

class MpiTransport final : public Transport {
 public:
  MpiTransport(const void* handle, telemetry::Counters& counters, std::size_t piece_bytes);
  ~MpiTransport() override;

  [[nodiscard]] Rank rank() const noexcept override { return comm_.rank(); }
  [[nodiscard]] int size() const noexcept override { return comm_.size(); }
  [[nodiscard]] std::unique_ptr<Transfer> send(Rank to, Tag tag, std::span<const std::byte> data) override;
  [[nodiscard]] std::unique_ptr<Transfer> receive(Rank from, Tag tag, std::span<std::byte> into) override;
  void wait_for_activity(std::chrono::microseconds at_most) override;
  void wake() noexcept override {
    const std::lock_guard lock(mutex_);
    woken_ = true;
    changed_.notify_all();
  }
  [[nodiscard]] std::uint64_t completed() const noexcept override { return completed_; }
  [[nodiscard]] Tag last_tag() const noexcept override { return last_tag_; }

  // Calls MPI, unless that has been done since `calls_seen`.
  void look(std::uint64_t& calls_seen);
  // Its memory is not written to any more; the message, when it comes, goes nowhere.
  void abandon(MpiReceive& receive) noexcept;

 private:
  // Whom one request of requests_ is for: one of the two.
  struct Party {
    std::shared_ptr<MpiSend> send;
    Slot* slot = nullptr;
    Key key;
  };
  Channel& channel_of(const Key& key);
  void poll();
  void complete(const Party& party, const MPI_Status& status, int error);
  void drop_completed();
  void advance(const Key& key);
  void take(Channel& channel, Slot& slot);
  void post(const Key& key, Channel& channel);
  std::unique_ptr<Slot> make_slot(const Channel& channel, const MpiReceive& receive);
  bool retract(Slot& slot);
  void retract_from(Channel& channel, std::size_t first);
  void keep_copy(Slot& slot);

  cluster::MpiComm comm_;
  telemetry::Counters& counters_;
  std::size_t piece_bytes_;
  Tag last_tag_;
  std::map<Key, Channel> channels_;  // no `waiting` is empty
  std::map<Key, Channel>::node_type spare_channel_;
  // Everything incomplete, abandoned or not, side by side.
  std::vector<MPI_Request> requests_;
  std::vector<Party> parties_;
  std::vector<int> indices_;  // scratch of poll()
  std::vector<MPI_Status> statuses_;
  std::vector<Key> touched_;
  std::vector<std::unique_ptr<Slot>> spare_;
  std::uint64_t calls_ = 0;  // of poll()
  std::chrono::microseconds nap_ = kShortestNap;
  std::uint64_t completed_ = 0;         // pieces
  std::uint64_t completed_before_ = 0;  // when the last wait ended
  std::mutex mutex_;                    // woken_
  std::condition_variable changed_;
  bool woken_ = false;
};

MpiTransfer::~MpiTransfer() {
  if (receive_ && !receive_->done) transport_.abandon(*receive_);
}

bool MpiTransfer::test() {
  if (!done()) transport_.look(calls_seen_);
  if (!done()) return false;
  const std::string& error = send_ ? send_->error : receive_->error;
  if (!error.empty()) throw BackendError(error);
  return true;
}

MpiTransport::MpiTransport(const void* handle, telemetry::Counters& counters, std::size_t piece_bytes)
    : comm_(handle, base::Deadline(cluster::kBootstrapTimeout)),
      counters_(counters),
      piece_bytes_(piece_bytes),
      last_tag_(last_mpi_tag()) {}

std::unique_ptr<Transfer> MpiTransport::send(Rank to, Tag tag, std::span<const std::byte> data) {
  auto state = std::make_shared<MpiSend>();
  state->size = data.size();
  state->pieces_left = data.size() / piece_bytes_ + 1;
  {
    const MpiTurn turn;
    for (std::size_t at = 0, left = state->pieces_left; left > 0; --left, at += piece_bytes_) {
      const std::size_t piece = std::min(data.size() - at, piece_bytes_);
      MPI_Request request = MPI_REQUEST_NULL;
      check_mpi(MPI_Isend(data.data() + at, static_cast<int>(piece), MPI_BYTE, to, static_cast<int>(tag), comm_.get(),
                          &request),
                "MPI_Isend");
      requests_.push_back(request);
      parties_.push_back({state, nullptr, {}});
    }
  }
  counters_.messages_sent.add();
  counters_.bytes_on_wire.add(data.size());
  return std::make_unique<MpiTransfer>(*this, std::move(state), calls_);
}

std::unique_ptr<Transfer> MpiTransport::receive(Rank from, Tag tag, std::span<std::byte> into) {
  auto state = std::make_shared<MpiReceive>();
  state->from = from;
  state->tag = tag;
  state->into = into;
  const Key key{from, tag};
  Channel& channel = channel_of(key);
  channel.waiting.push_back(state);
  try {
    post(key, channel);
  } catch (...) {
    state->abandoned = true;
    throw;
  }
  return std::make_unique<MpiTransfer>(*this, std::move(state), calls_);
}

// Short operations make and drop one each time: its memory is used again.
Channel& MpiTransport::channel_of(const Key& key) {
  if (spare_channel_.empty()) return channels_[key];
  const auto found = channels_.find(key);
  if (found != channels_.end()) return found->second;
  spare_channel_.key() = key;
  return channels_.insert(std::move(spare_channel_)).position->second;
}

void MpiTransport::look(std::uint64_t& calls_seen) {
  if (calls_seen == calls_) poll();
  calls_seen = calls_;
}

void MpiTransport::poll() {
  ++calls_;
  if (requests_.empty()) return;
  counters_.mpi_calls.add();
  indices_.resize(requests_.size());
  statuses_.resize(requests_.size());
  int count = 0;
  int code = MPI_SUCCESS;
  {
    const MpiTurn turn;
    code =
        MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count, indices_.data(), statuses_.data());
    if (code != MPI_ERR_IN_STATUS) check_mpi(code, "MPI_Testsome");
  }
  if (count == 0 || count == MPI_UNDEFINED) return;
  completed_ += static_cast<std::uint64_t>(count);
  touched_.clear();
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    const int error = code == MPI_ERR_IN_STATUS ? statuses_[i].MPI_ERROR : MPI_SUCCESS;
    complete(parties_[static_cast<std::size_t>(indices_[i])], statuses_[i], error);
  }
  drop_completed();
  for (const Key& key : touched_) advance(key);
}

void MpiTransport::complete(const Party& party, const MPI_Status& status, int error) {
  std::string text;
  if (error != MPI_SUCCESS) {
    try {
      check_mpi(error, party.slot == nullptr ? "sending" : "receiving from rank " + std::to_string(party.key.first));
    } catch (const BackendError& failure) {
      text = failure.what();
    }
  }
  if (party.slot == nullptr) {
    --party.send->pieces_left;
    if (party.send->error.empty()) party.send->error = std::move(text);
    return;
  }
  int bytes = 0;
  MPI_Get_count(&status, MPI_BYTE, &bytes);
  party.slot->size = static_cast<std::size_t>(bytes);
  party.slot->error = std::move(text);
  party.slot->done = true;
  if (std::find(touched_.begin(), touched_.end(), party.key) == touched_.end()) touched_.push_back(party.key);
}

void MpiTransport::drop_completed() {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    if (requests_[i] == MPI_REQUEST_NULL) continue;
    if (kept != i) {
      requests_[kept] = requests_[i];
      parties_[kept] = std::move(parties_[i]);
    }
    ++kept;
  }
  requests_.resize(kept);
  parties_.resize(kept);
}

// Works off what has come, in order, and gives MPI the next slots.
void MpiTransport::advance(const Key& key) {
  const auto found = channels_.find(key);
  Channel& channel = found->second;
  while (!channel.slots.empty() && channel.slots.front()->done) {
    auto slot = std::move(channel.slots.front());
    channel.slots.erase(channel.slots.begin());
    take(channel, *slot);
    spare_.push_back(std::move(slot));
  }
  post(key, channel);
  if (channel.waiting.empty()) spare_channel_ = channels_.extract(found);
}

// A piece for the first receive that is waiting.
void MpiTransport::take(Channel& channel, Slot& slot) {
  MpiReceive& receive = *channel.waiting.front();
  const bool fits = receive.size + slot.size <= receive.into.size();
  if (fits && !receive.abandoned && slot.size > 0) {
    std::byte* const to = receive.into.data() + receive.size;
    if (slot.at != to) std::memcpy(to, slot.at, slot.size);
  }
  receive.size += slot.size;
  receive.error = std::move(slot.error);
  if (slot.size == piece_bytes_ && receive.error.empty()) return;
  if (receive.error.empty() && receive.size > receive.into.size()) {
    receive.error = "a message of " + std::to_string(receive.size) + " bytes from rank " +
                    std::to_string(receive.from) + " is longer than the receive buffer of " +
                    std::to_string(receive.into.size()) + ". Do all ranks call the same collective with equal counts?";
  }
  receive.done = true;
  channel.waiting.erase(channel.waiting.begin());
}

void MpiTransport::post(const Key& key, Channel& channel) {
  const auto [from, tag] = key;
  while (channel.slots.size() < std::min(channel.waiting.size(), kMostSlots)) {
    const std::size_t next = channel.slots.size();
    // Behind a message of several pieces nothing is to be guessed.
    if (next > 0 && channel.waiting[next - 1]->into.size() > piece_bytes_) return;
    auto slot = make_slot(channel, *channel.waiting[next]);
    MPI_Request request = MPI_REQUEST_NULL;
    {
      const MpiTurn turn;
      check_mpi(MPI_Irecv(slot->at, static_cast<int>(piece_bytes_), MPI_BYTE, from, static_cast<int>(tag), comm_.get(),
                          &request),
                "MPI_Irecv");
    }
    requests_.push_back(request);
    parties_.push_back({nullptr, slot.get(), key});
    channel.slots.push_back(std::move(slot));
  }
}

std::unique_ptr<Slot> MpiTransport::make_slot(const Channel& channel, const MpiReceive& receive) {
  if (spare_.empty()) spare_.push_back(std::make_unique<Slot>());
  auto slot = std::move(spare_.back());
  spare_.pop_back();
  slot->owner = nullptr;
  slot->done = false;
  slot->error.clear();
  const bool lent = std::any_of(channel.slots.begin(), channel.slots.end(),
                                [&](const auto& other) { return other->owner == &receive; });
  if (!lent && !receive.abandoned && receive.size + piece_bytes_ <= receive.into.size()) {
    slot->at = receive.into.data() + receive.size;
    slot->owner = &receive;
    return slot;
  }
  if (slot->memory == nullptr) slot->memory = std::make_unique_for_overwrite<std::byte[]>(piece_bytes_);
  slot->at = slot->memory.get();
  return slot;
}

void MpiTransport::abandon(MpiReceive& receive) noexcept {
  receive.abandoned = true;
  const Key key{receive.from, receive.tag};
  const auto found = channels_.find(key);
  if (found == channels_.end() || !cluster::mpi_usable()) return;
  Channel& channel = found->second;
  const auto in_it = [&](const auto& slot) { return slot->owner == &receive; };
  const auto first = std::find_if(channel.slots.begin(), channel.slots.end(), in_it);
  if (first == channel.slots.end()) return;
  try {
    retract_from(channel, static_cast<std::size_t>(first - channel.slots.begin()));
    for (auto& slot : channel.slots) {
      if (slot->owner == &receive && slot->done) keep_copy(*slot);
    }
    advance(key);
  } catch (const Error&) {
    // MPI does not answer; whoever tests another transfer hears of it.
  }
}

void MpiTransport::keep_copy(Slot& slot) {
  slot.memory = std::make_unique_for_overwrite<std::byte[]>(piece_bytes_);
  std::memcpy(slot.memory.get(), slot.at, slot.size);
  slot.at = slot.memory.get();
  slot.owner = nullptr;
}

// Backwards, so that no message finds a later slot free and an earlier one gone. One that has a message already keeps
// it, and then so do all before it.
void MpiTransport::retract_from(Channel& channel, std::size_t first) {
  while (channel.slots.size() > first && !channel.slots.back()->done && retract(*channel.slots.back())) {
    spare_.push_back(std::move(channel.slots.back()));
    channel.slots.pop_back();
  }
  drop_completed();
}

// Takes a slot back from MPI. False when it has got its message instead. Where that is on its way and does not get
// here, because its sender is gone, the slot stays with MPI.
bool MpiTransport::retract(Slot& slot) {
  const auto party = std::find_if(parties_.begin(), parties_.end(), [&](const Party& p) { return p.slot == &slot; });
  MPI_Request& request = requests_[static_cast<std::size_t>(party - parties_.begin())];
  const base::Deadline deadline(kRetraction);
  const MpiTurn turn;
  check_mpi(MPI_Cancel(&request), "MPI_Cancel");
  MPI_Status status{};
  int done = 0;
  while (done == 0 && !deadline.passed()) check_mpi(MPI_Test(&request, &done, &status), "MPI_Test");
  if (done == 0) return false;
  int cancelled = 0;
  MPI_Test_cancelled(&status, &cancelled);
  if (cancelled == 0) complete(*party, status, MPI_SUCCESS);
  return cancelled != 0;
}

void MpiTransport::wait_for_activity(std::chrono::microseconds at_most) {
  const base::Deadline deadline(at_most);
  while (true) {
    poll();
    if (std::exchange(completed_before_, completed_) != completed_) {
      nap_ = kShortestNap;
      return;
    }
    std::unique_lock lock(mutex_);
    const auto length = std::min<std::chrono::nanoseconds>(nap_, deadline.left());
    changed_.wait_for(lock, length, [this] { return woken_; });
    nap_ = std::min(nap_ * 2, kLongestNap);
    if (std::exchange(woken_, false) || deadline.passed()) return;
  }
}

// A message may still be on its way here, a farewell for one. MPI would give it to the next communicator that has this
// one's number, so this one keeps its number until MPI ends.
MpiTransport::~MpiTransport() {
  comm_.keep();
  try {
    if (cluster::mpi_usable()) {
      poll();  // gives back what is complete
      for (auto& [key, channel] : channels_) retract_from(channel, 0);
    }
  } catch (const Error&) {
    // MPI does not answer: what it still holds stays with it.
  }
  for (auto& [key, channel] : channels_) {
    for (auto& receive : channel.waiting) receive->done = true;  // its Transfer may be destroyed later
    for (auto& slot : channel.slots) {
      if (!slot->done && slot->owner == nullptr)
        static_cast<void>(slot->memory.release());  // MPI may still write to it
    }
  }
}

}  // namespace

std::unique_ptr<Transport> make_mpi_in_pieces(const void* mpi_comm, telemetry::Counters& counters,
                                              std::size_t piece_bytes) {
  cluster::require_mpi();
  return std::make_unique<MpiTransport>(mpi_comm, counters, piece_bytes);
}

std::unique_ptr<Transport> make_mpi(const void* mpi_comm, telemetry::Counters& counters) {
  return make_mpi_in_pieces(mpi_comm, counters, kMpiPieceBytes);
}

}  // namespace kolo::transport
