// Messages over MPI. MPI counts in int, so a long message travels in pieces:
//
//   message of 2.5 pieces:  [ full ][ full ][ half ]      a piece that is not full ends the message,
//   message of 2 pieces:    [ full ][ full ][ empty ]     so the receiver needs no length in advance
//
// A receive is not given to MPI before its message is there (matched probe): MPI's own handling of messages that are
// longer than the buffer is not to be relied on, and the length decides where a piece goes. Receives with equal source
// and tag stand in a queue; the first takes pieces until its message ends.
//
// MPI cannot be waited on by a thread that wants to do something else: wait_for_activity() tests and naps in turns.
#include <algorithm>
#include <condition_variable>
#include <deque>
#include <list>
#include <map>
#include <mutex>
#include <string>
#include <utility>

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

struct MpiSend {
  std::vector<MPI_Request> pieces;
  std::size_t size = 0;
  bool done = false;
  std::string error;  // what MPI said, when done has become true that way
};

struct MpiReceive {
  Rank from = 0;
  Tag tag = 0;
  std::span<std::byte> into;
  MPI_Request piece = MPI_REQUEST_NULL;  // under way
  int piece_size = 0;
  std::size_t size = 0;
  std::vector<std::byte> scratch;  // takes the pieces of a message that does not fit
  bool done = false;
  std::string error;
};

class MpiTransport;

class MpiTransfer final : public Transfer {
 public:
  MpiTransfer(MpiTransport& transport, std::shared_ptr<MpiSend> send) : transport_(transport), send_(std::move(send)) {}
  MpiTransfer(MpiTransport& transport, std::shared_ptr<MpiReceive> receive)
      : transport_(transport), receive_(std::move(receive)) {}
  bool test() override;
  [[nodiscard]] std::size_t size() const noexcept override { return send_ ? send_->size : receive_->size; }

 private:
  MpiTransport& transport_;
  std::shared_ptr<MpiSend> send_;  // one of the two; shared with the transport, which keeps what is abandoned
  std::shared_ptr<MpiReceive> receive_;
};

class MpiTransport final : public Transport {
 public:
  MpiTransport(const void* handle, telemetry::Counters& counters, std::size_t piece_bytes)
      : comm_(handle, base::Deadline(cluster::kBootstrapTimeout)), counters_(counters), piece_bytes_(piece_bytes) {}
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

  // True once it is done, or has failed: an error is for the transfer's owner, whoever comes across it.
  bool poll(MpiSend& send);
  bool poll(MpiReceive& receive);

 private:
  bool advance(MpiReceive& receive);
  using Key = std::pair<Rank, Tag>;
  using Queue = std::deque<std::shared_ptr<MpiReceive>>;
  void advance(Queue& queue);
  void advance_receives();
  bool begin_piece(MpiReceive& receive);
  void poll_all();

  cluster::MpiComm comm_;
  telemetry::Counters& counters_;
  std::size_t piece_bytes_;
  // Everything incomplete, abandoned or not: MPI must be able to finish it.
  std::list<std::shared_ptr<MpiSend>> sends_;
  std::map<Key, Queue> receives_;  // no queue is empty
  std::chrono::microseconds nap_ = kShortestNap;
  bool completed_ = false;  // something, since the last wait
  std::mutex mutex_;        // woken_
  std::condition_variable changed_;
  bool woken_ = false;
};

bool MpiTransfer::test() {
  if (!(send_ ? transport_.poll(*send_) : transport_.poll(*receive_))) return false;
  const std::string& error = send_ ? send_->error : receive_->error;
  if (!error.empty()) throw BackendError(error);
  return true;
}

std::unique_ptr<Transfer> MpiTransport::send(Rank to, Tag tag, std::span<const std::byte> data) {
  auto state = std::make_shared<MpiSend>();
  state->size = data.size();
  std::size_t at = 0;
  std::size_t piece = 0;
  sends_.push_back(state);
  {
    const MpiTurn turn;
    do {
      piece = std::min(data.size() - at, piece_bytes_);
      state->pieces.push_back(MPI_REQUEST_NULL);
      check_mpi(MPI_Isend(data.data() + at, static_cast<int>(piece), MPI_BYTE, to, static_cast<int>(tag), comm_.get(),
                          &state->pieces.back()),
                "MPI_Isend");
      at += piece;
    } while (piece == piece_bytes_);
  }
  counters_.messages_sent.add();
  counters_.bytes_on_wire.add(data.size());
  return std::make_unique<MpiTransfer>(*this, std::move(state));
}

std::unique_ptr<Transfer> MpiTransport::receive(Rank from, Tag tag, std::span<std::byte> into) {
  auto state = std::make_shared<MpiReceive>();
  state->from = from;
  state->tag = tag;
  state->into = into;
  receives_[{from, tag}].push_back(state);
  return std::make_unique<MpiTransfer>(*this, std::move(state));
}

bool MpiTransport::poll(MpiSend& send) {
  if (send.done) return true;
  bool finished = false;
  try {
    const MpiTurn turn;
    int done = 0;
    check_mpi(MPI_Testall(static_cast<int>(send.pieces.size()), send.pieces.data(), &done, MPI_STATUSES_IGNORE),
              "sending");
    finished = done != 0;
  } catch (const BackendError& error) {
    finished = true;
    send.error = error.what();
  }
  if (!finished) {
    advance_receives();  // the peer may wait for ours before it takes this
    return false;
  }
  send.done = completed_ = true;
  sends_.remove_if([&](const auto& kept) { return kept.get() == &send; });
  return true;
}

bool MpiTransport::poll(MpiReceive& receive) {
  if (!receive.done) advance_receives();
  return receive.done;
}

void MpiTransport::advance_receives() {
  for (auto entry = receives_.begin(); entry != receives_.end();) {
    advance(entry->second);
    entry = entry->second.empty() ? receives_.erase(entry) : std::next(entry);
  }
}

void MpiTransport::advance(Queue& queue) {
  while (!queue.empty()) {
    MpiReceive& first = *queue.front();
    try {
      while (!first.done) {
        if (!advance(first)) return;
      }
    } catch (const BackendError& error) {
      first.error = error.what();
      first.done = true;
    }
    completed_ = true;
    queue.pop_front();
  }
}

// False when there is nothing to do now. Sets done after the last piece.
bool MpiTransport::advance(MpiReceive& receive) {
  const MpiTurn turn;
  if (receive.piece == MPI_REQUEST_NULL && !begin_piece(receive)) return false;
  int came = 0;
  check_mpi(MPI_Test(&receive.piece, &came, MPI_STATUS_IGNORE), "receiving from rank " + std::to_string(receive.from));
  if (came == 0) return false;
  receive.size += static_cast<std::size_t>(receive.piece_size);
  receive.done = static_cast<std::size_t>(receive.piece_size) < piece_bytes_;
  if (receive.done && receive.size > receive.into.size()) {
    receive.error = "a message of " + std::to_string(receive.size) + " bytes from rank " +
                    std::to_string(receive.from) + " is longer than the receive buffer of " +
                    std::to_string(receive.into.size());
  }
  return true;
}

bool MpiTransport::begin_piece(MpiReceive& receive) {
  MPI_Message message = MPI_MESSAGE_NULL;
  MPI_Status status{};
  int found = 0;
  check_mpi(MPI_Improbe(receive.from, static_cast<int>(receive.tag), comm_.get(), &found, &message, &status),
            "MPI_Improbe");
  if (found == 0) return false;
  MPI_Get_count(&status, MPI_BYTE, &receive.piece_size);
  const auto size = static_cast<std::size_t>(receive.piece_size);
  const bool fits = receive.size + size <= receive.into.size();
  if (!fits) receive.scratch.resize(size);
  std::byte* to = fits ? receive.into.data() + receive.size : receive.scratch.data();
  check_mpi(MPI_Imrecv(to, receive.piece_size, MPI_BYTE, &message, &receive.piece), "MPI_Imrecv");
  return true;
}

void MpiTransport::poll_all() {
  const std::vector<std::shared_ptr<MpiSend>> sends(sends_.begin(), sends_.end());  // poll() shortens the list
  for (const auto& send : sends) poll(*send);
  advance_receives();
}

void MpiTransport::wait_for_activity(std::chrono::microseconds at_most) {
  const base::Deadline deadline(at_most);
  while (true) {
    poll_all();
    if (std::exchange(completed_, false)) {
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

MpiTransport::~MpiTransport() {
  if (!cluster::mpi_usable()) return;
  const MpiTurn turn;
  bool pending = false;
  for (const auto& [key, queue] : receives_) pending = pending || queue.front()->piece != MPI_REQUEST_NULL;
  for (const auto& send : sends_) {
    int done = 0;
    MPI_Testall(static_cast<int>(send->pieces.size()), send->pieces.data(), &done, MPI_STATUSES_IGNORE);
    pending = pending || done == 0;
  }
  if (pending) comm_.keep();
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
