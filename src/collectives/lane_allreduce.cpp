// One-shot allreduce through lanes, piece by piece, for two or three ranks and for everything small.
//
// Every rank shows a piece of its data in its lane; then every rank reduces that piece from all lanes, in rank order,
// into its own private memory. One synchronisation a piece; while the peers' piece is awaited the next one is copied
// in.
//
//   rank 0  private [a0 b0 c0 ..] --copy b0--> lane           a = a0+a1+a2+a3 is computed by every rank for itself:
//   rank 1  private [a1 b1 c1 ..] --copy b1--> lane            (p-1)N bytes cross between cores per rank, but each
//   rank 2  private [a2 b2 c2 ..] --copy b2--> lane            crosses once, and memory sees N read, N written
//   rank 3  private [a3 b3 c3 ..] --copy b3--> lane
//
// Equal order of the inputs gives equal bits on all ranks. Flags go in front of the first piece.
#include "collectives/lane_flags.h"
#include "collectives/lane_operations.h"

namespace kolo::collectives {
namespace {

class LaneAllreduce final : public LaneOperation {
 public:
  LaneAllreduce(std::shared_ptr<Group> group, const std::shared_ptr<Lanes>& lanes, const AllreduceOptions& options)
      : LaneOperation(std::move(group), lanes, steps_of(options)),
        options_(options),
        element_(size_of(options.dtype)),
        piece_(piece_of(options)),
        flags_(flag_bytes(options.flags, std::min(options.count, piece_) * element_)) {}

 private:
  // Elements in a step.
  static std::size_t piece_of(const AllreduceOptions& options) {
    const std::size_t flags = kMaxFlagWords * sizeof(std::uint64_t);
    return (kLaneBytes - flags) / kCacheLine * kCacheLine / size_of(options.dtype);
  }
  static std::size_t steps_of(const AllreduceOptions& options) {
    const std::size_t steps = (options.count + piece_of(options) - 1) / piece_of(options);
    return std::max<std::size_t>(steps, options.flags.words.empty() ? 0 : 1);
  }
  [[nodiscard]] Range piece(std::size_t step) const {
    const std::size_t begin = std::min(options_.count, step * piece_);
    return {begin, std::min(options_.count, begin + piece_)};
  }

  [[nodiscard]] std::size_t payload_bytes(int /*rank*/, std::size_t step) const override {
    return (step == 0 ? flags_ : 0) + piece(step).size() * element_;
  }

  void fill(std::size_t step, std::byte* payload) override {
    if (step == 0) {
      write_flags(options_.flags, payload);
      payload += flags_;
    }
    const Range mine = piece(step);
    show(payload, options_.data + mine.begin * element_, mine.size() * element_);
  }

  void drain(std::size_t step, std::span<const std::byte* const> payloads) override {
    if (step == 0 && read_flags(options_.flags, payloads)) return stop();
    const Range mine = piece(step);
    if (mine.size() == 0) return;
    std::byte* output = options_.data + mine.begin * element_;
    reduction_of(options_).run(with_own(payloads, step == 0 ? flags_ : 0, output), {&output, 1}, mine.size());
  }

  AllreduceOptions options_;
  std::size_t element_;
  std::size_t piece_;
  std::size_t flags_;  // bytes in front of the first piece
};

}  // namespace

std::unique_ptr<Operation> start_lane_allreduce(std::shared_ptr<Group> group, const std::shared_ptr<Lanes>& lanes,
                                                const AllreduceOptions& options) {
  return std::make_unique<LaneAllreduce>(std::move(group), lanes, options);
}

}  // namespace kolo::collectives
