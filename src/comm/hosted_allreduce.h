#pragma once
// Allreduce of one registered buffer over several hosts. See hosted_allreduce.cpp.
#include <cstdint>
#include <memory>
#include <vector>

#include "collectives/direct_meeting.h"
#include "comm/hierarchy.h"

namespace kolo::comm {

// A piece of other operations, not one itself: advanced from the group's turn. `options.data` lies in `buffer`.
class HostedAllreduce {
 public:
  static constexpr std::size_t kPieceBytes = std::size_t{1} << 20;  // of a slice, which travel together
  static constexpr std::size_t kOneLaneBytes = 4096;  // up to here one lane carries everything: fewer messages

  HostedAllreduce(HierarchyPtr hierarchy, std::shared_ptr<collectives::DirectBuffer> buffer,
                  const AllreduceOptions& options);
  ~HostedAllreduce();
  HostedAllreduce(const HostedAllreduce&) = delete;
  HostedAllreduce& operator=(const HostedAllreduce&) = delete;

  // Without waiting; true once complete.
  bool advance();
  // Everything that this rank sends to other hosts has been started. All ranks start that in the same order, so the
  // next operation may come now.
  [[nodiscard]] bool launched() const noexcept;
  [[nodiscard]] std::vector<Rank> waiting_for() const;

 private:
  enum class Phase { arrive, gather, exchange, done };
  // Reduced, then on its way while `travel` is there, then written out.
  struct Piece {
    bool begun = false;
    collectives::Range elements;  // of options_.data
    std::size_t at = 0;           // next element to be reduced, or to be written out
    std::byte* memory = nullptr;  // its place in scratch_
    std::unique_ptr<Operation> travel;
  };

  void begin_exchange();
  bool exchange();
  void end_exchange();
  [[nodiscard]] bool vetoed() const noexcept { return flags_known_ && options_.flags.vetoed(); }
  void receive();
  void work();
  void reduce_quantum(Piece& piece);
  void write_quantum(Piece& piece);
  [[nodiscard]] std::unique_ptr<Operation> travel(std::byte* data, std::size_t count, bool with_flags);
  // Where element `piece.at` lies in scratch_.
  [[nodiscard]] std::byte* scratch_of(const Piece& piece) const {
    return piece.memory + (piece.at - piece.elements.begin) * wire_element_;
  }
  // All local buffers' memory from `element` on; valid until the next call.
  [[nodiscard]] std::span<std::byte* const> columns(std::size_t element);
  void widen_and_add(std::span<std::byte* const> inputs, std::byte* to, std::size_t count);
  [[nodiscard]] Piece& slot(std::size_t piece) { return pieces_[piece % pieces_.size()]; }

  HierarchyPtr hierarchy_;
  std::shared_ptr<collectives::DirectBuffer> buffer_;
  AllreduceOptions options_;
  collectives::DirectMeeting meeting_;
  Phase phase_ = Phase::arrive;
  bool wide_;                   // short integers whose sum is formed in 64 bits
  collectives::Reduction sum_;  // what is done inside the host, and across
  std::size_t element_;         // bytes, of the buffer
  std::size_t wire_element_;    // bytes, of what travels
  collectives::Range slice_;    // this rank's share
  std::size_t piece_;           // elements
  std::size_t quantum_;         // elements
  std::size_t count_ = 0;       // pieces of the slice
  std::size_t reduced_ = 0;     // pieces in scratch or beyond
  std::size_t sent_ = 0;        // pieces on their way or beyond
  std::size_t written_ = 0;     // pieces complete
  std::vector<Piece> pieces_;
  std::unique_ptr<PrivateBuffer> scratch_;
  std::unique_ptr<Operation> flags_travel_;  // flags that travel alone, ahead of several pieces
  bool flags_known_ = false;                 // over all hosts
  std::vector<std::int64_t> wide_column_;
};

}  // namespace kolo::comm
