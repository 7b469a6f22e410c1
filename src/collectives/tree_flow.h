#pragma once
// The moving of data along one tree: up while it is reduced, down when it is final, or only down. See tree_flow.cpp.
#include <cstddef>
#include <optional>
#include <vector>

#include "collectives/double_tree.h"
#include "collectives/reduction.h"
#include "collectives/segment_stream.h"
#include "transport/transport.h"

namespace kolo::collectives {

// In place on `data`, whose memory must outlive it.
class TreeFlow {
 public:
  struct Plan {
    TreeNode node;
    transport::Tag tag = 0;
    std::byte* data = nullptr;
    std::size_t count = 0;  // elements
    std::size_t segment_elements = 1;
    std::optional<Reduction> reduction;  // none: only what the root has is handed down
    DType dtype = DType::u8;             // the reduction's, if there is one
  };

  TreeFlow(transport::Transport& transport, const Plan& plan);
  // Without waiting; true once complete.
  bool advance();
  [[nodiscard]] std::vector<Rank> waiting_for() const;

 private:
  struct Child {
    SegmentReceiver up;
    SegmentSender down;
  };
  struct Parent {
    SegmentSender up;
    SegmentReceiver down;
  };

  [[nodiscard]] std::span<std::byte> segment(std::size_t index) const;
  bool move_up();
  bool move_down();
  bool gather();
  void reduce(std::size_t index);
  [[nodiscard]] bool may_receive() const;
  // Segments that have their final value here.
  [[nodiscard]] std::size_t final_here() const;
  [[nodiscard]] bool complete() const;

  Plan plan_;
  int size_;
  std::size_t element_;
  std::size_t segments_;
  std::size_t reduced_ = 0;  // segments that hold this rank's subtree
  std::vector<Child> children_;
  std::optional<Parent> parent_;
};

}  // namespace kolo::collectives
