// Sliced allreduce through lanes: for four ranks and more on private memory.
//
// Two steps a piece: in step A every rank shows what others need of its piece, and reduces slice r of it, its own from
// where it is and the others' from their lanes; in step B it shows its reduced slice, and everybody copies the others'
// slices out. About 2N bytes cross between cores per rank
// whatever the number of ranks, where the one-shot way takes (p-1)N.
//
//   A   lanes  0:[-- b0 c0 d0]  1:[a1 -- c1 d1]  2:[a2 b2 -- d2]  3:[a3 b3 c3 --]   rank 1 reduces b = b0+b1+b2+b3
//   B   lanes  0:[a]            1:[b]            2:[c]            3:[d]             everybody copies a, b, c, d
//
// Steps are interleaved as A0 A1 B0 A2 B1 A3 B2 ... so that the next piece is copied in while peers are awaited, and
// B(k) is filled after A(k) was drained. That needs at least two pieces.
#include "collectives/lane_flags.h"
#include "collectives/lane_operations.h"

namespace kolo::collectives {
namespace {

class LaneSlicedAllreduce final : public LaneOperation {
 public:
  LaneSlicedAllreduce(std::shared_ptr<Group> group, const std::shared_ptr<Lanes>& lanes,
                      const AllreduceOptions& options)
      : LaneOperation(std::move(group), lanes, 2 * pieces_of(options)),
        options_(options),
        element_(size_of(options.dtype)),
        each_(piece_of(options)),
        pieces_(pieces_of(options)),
        flags_(flag_bytes(options.flags, kLaneBytes)) {}

 private:
  static constexpr std::size_t kPieceBytes = kLaneBytes - kMaxFlagWords * sizeof(std::uint64_t);

  struct Step {
    bool gather;  // B
    std::size_t piece;
  };

  // Elements in a piece.
  static std::size_t piece_of(const AllreduceOptions& options) {
    const std::size_t grain = line_grain(options.dtype);
    const std::size_t half = ((options.count + 1) / 2 + grain - 1) / grain * grain;
    return std::clamp<std::size_t>(half, 1, kPieceBytes / size_of(options.dtype));
  }
  static std::size_t pieces_of(const AllreduceOptions& options) {
    return std::max<std::size_t>(2, (options.count + piece_of(options) - 1) / piece_of(options));
  }

  // A0 A1 B0 A2 B1 ... A(n-1) B(n-2) B(n-1)
  [[nodiscard]] Step step_at(std::size_t index) const {
    if (index == 0) return {false, 0};
    if (index == 2 * pieces_ - 1) return {true, pieces_ - 1};
    return index % 2 == 1 ? Step{false, (index + 1) / 2} : Step{true, index / 2 - 1};
  }

  [[nodiscard]] Range piece(std::size_t index) const {
    const std::size_t begin = std::min(options_.count, index * each_);
    return {begin, std::min(options_.count, begin + each_)};
  }

  // Rank r's slice, in elements of the whole array.
  [[nodiscard]] Range slice(std::size_t index, int r) const {
    const Range whole = piece(index);
    const Range part = part_of(whole.size(), size(), r, line_grain(options_.dtype));
    return {whole.begin + part.begin, whole.begin + part.end};
  }

  [[nodiscard]] std::size_t payload_bytes(int r, std::size_t index) const override {
    const Step step = step_at(index);
    if (step.gather) return slice(step.piece, r).size() * element_;
    return (index == 0 ? flags_ : 0) + piece(step.piece).size() * element_;
  }

  void fill(std::size_t index, std::byte* payload) override {
    const Step step = step_at(index);
    if (index == 0) {
      write_flags(options_.flags, payload);
      payload += flags_;
    }
    const Range mine = slice(step.piece, rank());
    if (step.gather) return show_part(payload, mine);
    const Range all = piece(step.piece);
    show_part(payload, {all.begin, mine.begin});
    show_part(payload + (mine.end - all.begin) * element_, {mine.end, all.end});
  }

  void show_part(std::byte* payload, const Range& shown) {
    show(payload, options_.data + shown.begin * element_, shown.size() * element_);
  }

  void drain(std::size_t index, std::span<const std::byte* const> payloads) override {
    if (index == 0 && read_flags(options_.flags, payloads)) return stop();
    const Step step = step_at(index);
    if (step.gather) return copy_out(step.piece, payloads);
    const Range mine = slice(step.piece, rank());
    if (mine.size() == 0) return;
    const std::size_t offset = (index == 0 ? flags_ : 0) + (mine.begin - piece(step.piece).begin) * element_;
    std::byte* output = options_.data + mine.begin * element_;
    reduction_of(options_).run(with_own(payloads, offset, output), {&output, 1}, mine.size());
  }

  void copy_out(std::size_t index, std::span<const std::byte* const> payloads) {
    for (int r = 0; r < size(); ++r) {
      const Range theirs = slice(index, r);
      if (r == rank() || theirs.size() == 0) continue;
      std::memcpy(options_.data + theirs.begin * element_, payloads[static_cast<std::size_t>(r)],
                  theirs.size() * element_);
    }
  }

  AllreduceOptions options_;
  std::size_t element_;
  std::size_t each_;  // elements in a piece
  std::size_t pieces_;
  std::size_t flags_;  // bytes in front of the first piece
};

}  // namespace

std::unique_ptr<Operation> start_lane_sliced_allreduce(std::shared_ptr<Group> group,
                                                       const std::shared_ptr<Lanes>& lanes,
                                                       const AllreduceOptions& options) {
  return std::make_unique<LaneSlicedAllreduce>(std::move(group), lanes, options);
}

}  // namespace kolo::collectives
