// Allreduce of a registered buffer over several hosts: the direct algorithm's two halves inside each host, and between
// them an allreduce over the network, in which every lane drives its slice across.
//
// Ranks 0 and 1 on one host, 2 and 3 on another, slices a and b of everybody's data:
//
//            reduce inside          allreduce across           write inside
//   rank 0   a0+a1 in scratch   --+                       +--> a into column a of ranks 0 and 1
//   rank 2   a2+a3 in scratch   --+-- lane 0: a0+...+a3 --+--> a into column a of ranks 2 and 3
//
//   rank 1   b0+b1 in scratch   --+                       +--> b into column b of ranks 0 and 1
//   rank 3   b2+b3 in scratch   --+-- lane 1: b0+...+b3 --+--> b into column b of ranks 2 and 3
//
//   arrive     publish flags; until all ranks of the host have
//   exchange   own slice, piece by piece, several on their way at once:
//              reduce all local columns into scratch -> allreduce over the lane -> write into all local columns
//   done       until all ranks of the host are
//
// Each byte leaves and enters a host as often as the algorithm across sends it: 2(h-1)/h N a host for the ring,
// whatever the number of ranks on it. Ranks beyond the lanes show their data and receive the result.
//
// Results go into buffers only when the flags of all hosts are known, so that a veto leaves all data untouched: flags
// travel with a single piece, and ahead of several, whose reduction into scratch goes on meanwhile. Lane 0 leaves them
// beside its `done` for ranks that sent nothing.
//
// The sum is formed in rank order inside the host (16-bit types rounded once) and then as the algorithm across does;
// prescale on first use, division by the number of all ranks and postscale when results are written. One rank of each
// host computes an element from equal bits, so that all ranks have equal bits.
#include "comm/hosted_allreduce.h"

#include <algorithm>
#include <utility>

#include "collectives/widen.h"

namespace kolo::comm {
namespace {

using namespace collectives;

constexpr std::size_t kPiecesInFlight = 4;
constexpr std::size_t kQuantumBytes = 256 * 1024;  // of local work in one advance(): messages wait meanwhile

Reduction sum_of(const AllreduceOptions& options) {
  Reduction sum = partial_reduction(options.dtype, options.op);
  sum.prescale = options.prescale;
  return sum;
}

Range slice_of(const AllreduceOptions& options, const Hierarchy& hierarchy) {
  const std::size_t bytes = options.count * size_of(options.dtype);
  const std::size_t lanes = bytes <= HostedAllreduce::kOneLaneBytes ? 1 : hierarchy.lanes();
  if (hierarchy.local() >= lanes) return {};
  return part_of(options.count, static_cast<int>(lanes), static_cast<int>(hierarchy.local()),
                 line_grain(options.dtype));
}

}  // namespace

std::string explain_across(Hierarchy& hierarchy, const AllreduceOptions& options) {
  AllreduceOptions piece;
  piece.dtype = sum_of(options).dtype;
  piece.op = sum_of(options).op;
  piece.count = std::min(slice_of(options, hierarchy).size(), HostedAllreduce::kPieceBytes / size_of(piece.dtype));
  return hierarchy.across().explain(piece).reason;
}

HostedAllreduce::HostedAllreduce(HierarchyPtr hierarchy, std::shared_ptr<DirectBuffer> buffer,
                                 const AllreduceOptions& options)
    : hierarchy_(std::move(hierarchy)),
      buffer_(std::move(buffer)),
      options_(options),
      meeting_(*buffer_, static_cast<Rank>(hierarchy_->local())),
      wide_(needs_wide_sums(options.dtype, options.op)),
      sum_(sum_of(options)),
      element_(size_of(options.dtype)),
      wire_element_(size_of(sum_.dtype)),
      slice_(slice_of(options, *hierarchy_)),
      piece_(kPieceBytes / wire_element_),
      quantum_(kQuantumBytes / wire_element_),
      count_((slice_.size() + piece_ - 1) / piece_),
      pieces_(std::min(count_, kPiecesInFlight)) {}

HostedAllreduce::~HostedAllreduce() {
  if (scratch_ == nullptr) return;
  pieces_.clear();  // abandoned: messages may still be on their way to and from the scratch
  hierarchy_->keep(std::move(scratch_));
}

bool HostedAllreduce::advance() {
  if (phase_ == Phase::arrive) {
    meeting_.arrive(options_.flags.words);
    phase_ = Phase::gather;
  }
  if (phase_ == Phase::gather) {
    if (!meeting_.all_arrived()) return false;
    meeting_.combine(options_.flags.words);
    begin_exchange();
  }
  if (phase_ == Phase::exchange) {
    if (!exchange()) return false;
    end_exchange();
  }
  if (!meeting_.all_done()) return false;
  if (!flags_known_) {
    std::copy_n(buffer_->control.front()->verdict, options_.flags.words.size(), options_.flags.words.begin());
    flags_known_ = true;
  }
  return true;
}

void HostedAllreduce::begin_exchange() {
  phase_ = Phase::exchange;
  flags_known_ = options_.flags.words.empty();
  if (count_ != 0) {
    const std::size_t each = std::min(piece_, slice_.size()) * wire_element_;
    scratch_ = hierarchy_->take_scratch(pieces_.size() * each);
    for (std::size_t p = 0; p < pieces_.size(); ++p) pieces_[p].memory = scratch_->data().data() + p * each;
  }
  const bool alone = count_ > 1 || (count_ == 0 && hierarchy_->local() == 0);
  if (!flags_known_ && alone) flags_travel_ = travel(nullptr, 0, true);
}

// What the others of this host wait for: they may read the flags once they see that this rank is done.
void HostedAllreduce::end_exchange() {
  if (scratch_ != nullptr) hierarchy_->give_back(std::move(scratch_));
  if (hierarchy_->local() == 0) {
    const auto& words = options_.flags.words;
    std::copy(words.begin(), words.end(), buffer_->control.front()->verdict);
  }
  meeting_.depart();
  phase_ = Phase::done;
}

bool HostedAllreduce::launched() const noexcept {
  return phase_ == Phase::done || (phase_ == Phase::exchange && (sent_ == count_ || vetoed()));
}

bool HostedAllreduce::exchange() {
  if (flags_travel_ != nullptr && flags_travel_->advance()) {
    flags_travel_.reset();
    flags_known_ = true;
  }
  receive();
  if (!vetoed()) work();
  return flags_travel_ == nullptr && (written_ == count_ || vetoed());
}

void HostedAllreduce::receive() {
  for (std::size_t p = written_; p < sent_; ++p) {
    Piece& piece = slot(p);
    if (piece.travel == nullptr || !piece.travel->advance()) continue;
    piece.travel.reset();
    piece.at = piece.elements.begin;
    flags_known_ = true;  // with the only piece, or long since
    hierarchy_->group()->moved = true;
  }
}

// At most a quantum, so that a caller in passing is not held up. Writing out comes first: it makes room.
void HostedAllreduce::work() {
  if (written_ < sent_ && slot(written_).travel == nullptr) {
    write_quantum(slot(written_));
  } else if (reduced_ < count_ && reduced_ < written_ + pieces_.size()) {
    reduce_quantum(slot(reduced_));
  }
  for (; sent_ < reduced_ && (flags_known_ || count_ == 1); ++sent_) {
    Piece& piece = slot(sent_);
    piece.travel = travel(piece.memory, piece.elements.size(), count_ == 1);
  }
}

std::unique_ptr<Operation> HostedAllreduce::travel(std::byte* data, std::size_t count, bool with_flags) {
  AllreduceOptions options;
  options.data = data;
  options.count = count;
  options.dtype = sum_.dtype;
  options.op = sum_.op;
  if (with_flags) options.flags = options_.flags;
  return hierarchy_->across().start(options);
}

std::span<std::byte* const> HostedAllreduce::columns(std::size_t element) {
  return buffer_->columns_at(hierarchy_->local(), options_.data, element * element_);
}

void HostedAllreduce::reduce_quantum(Piece& piece) {
  if (!piece.begun) {
    piece.begun = true;
    piece.elements.begin = piece.at = slice_.begin + reduced_ * piece_;
    piece.elements.end = std::min(slice_.end, piece.at + piece_);
  }
  const std::size_t count = std::min(quantum_, piece.elements.end - piece.at);
  std::byte* to = scratch_of(piece);
  const std::span<std::byte* const> inputs = columns(piece.at);
  if (wide_) {
    widen_and_add(inputs, to, count);
  } else {
    const std::span<const std::byte* const> readable(inputs.data(), inputs.size());
    sum_.run(readable, {&to, 1}, count);
  }
  piece.at += count;
  if (piece.at == piece.elements.end) ++reduced_;
  if (auto* counters = hierarchy_->group()->counters) counters->bytes_reduced_shared.add(count * element_);
  hierarchy_->group()->moved = true;
}

void HostedAllreduce::widen_and_add(std::span<std::byte* const> inputs, std::byte* to, std::size_t count) {
  widen(inputs.front(), options_.dtype, count, reinterpret_cast<std::int64_t*>(to));
  wide_column_.resize(count);
  for (const std::byte* input : inputs.subspan(1)) {
    widen(input, options_.dtype, count, wide_column_.data());
    const std::byte* const terms[] = {to, reinterpret_cast<const std::byte*>(wide_column_.data())};
    sum_.run(terms, {&to, 1}, count);
  }
}

void HostedAllreduce::write_quantum(Piece& piece) {
  const std::size_t count = std::min(quantum_, piece.elements.end - piece.at);
  std::byte* from = scratch_of(piece);
  const std::span<std::byte* const> outputs = columns(piece.at);
  const std::byte* const input = from;
  const std::size_t working_set = outputs.size() * options_.count * element_;
  Reduction whole = reduction_of(options_);
  whole.dtype = sum_.dtype;
  combine(whole, {&input, 1}, wide_ ? std::span<std::byte* const>(&from, 1) : outputs, count,
          {true, hierarchy_->size(), !wide_ && working_set > last_level_cache_bytes()});
  for (std::byte* output : wide_ ? outputs : std::span<std::byte* const>{}) {
    narrow(reinterpret_cast<const std::int64_t*>(from), options_.dtype, count, output);
  }
  piece.at += count;
  if (piece.at == piece.elements.end) {
    piece.begun = false;
    ++written_;
  }
  hierarchy_->group()->moved = true;
}

std::vector<Rank> HostedAllreduce::waiting_for() const {
  if (phase_ == Phase::gather || phase_ == Phase::done) return hierarchy_->named_inside(meeting_.missing());
  if (flags_travel_ != nullptr) return hierarchy_->named_across(flags_travel_->waiting_for());
  for (const Piece& piece : pieces_) {
    if (piece.travel != nullptr) return hierarchy_->named_across(piece.travel->waiting_for());
  }
  return {};
}

}  // namespace kolo::comm
