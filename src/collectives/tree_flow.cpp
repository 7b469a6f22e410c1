// Data climbs a tree in segments, being reduced, and comes down the same way:
//
//        0
//        |      segment 1 goes up while segment 0, which is final, comes down: the two directions of one link
//        2
//       / |     segment 2 goes up
//      1  3
//
// An inner rank adds its children's partial sums to its own contribution in the order of the places, in one pass, so
// 16-bit types are rounded once a level. The root computes the final value and everybody copies it: equal bits
// everywhere.
#include "collectives/tree_flow.h"

#include <algorithm>

namespace kolo::collectives {

TreeFlow::TreeFlow(transport::Transport& transport, const Plan& plan)
    : plan_(plan),
      size_(transport.size()),
      element_(size_of(plan.dtype)),
      segments_((plan.count + plan.segment_elements - 1) / plan.segment_elements) {
  if (segments_ == 0) return;
  for (const Rank child : plan.node.children) {
    children_.push_back({{transport, child, plan.tag}, {transport, child, plan.tag}});
  }
  if (plan.node.parent)
    parent_.emplace(Parent{{transport, *plan.node.parent, plan.tag}, {transport, *plan.node.parent, plan.tag}});
}

std::span<std::byte> TreeFlow::segment(std::size_t index) const {
  const std::size_t begin = index * plan_.segment_elements;
  const std::size_t end = std::min(plan_.count, begin + plan_.segment_elements);
  return {plan_.data + begin * element_, (end - begin) * element_};
}

bool TreeFlow::advance() {
  for (bool moved = true; moved;) {
    moved = plan_.reduction && move_up();
    moved |= move_down();
  }
  return complete();
}

bool TreeFlow::move_up() {
  bool moved = parent_ && parent_->up.reap();
  for (Child& child : children_) {
    for (; child.up.has_room() && child.up.posted() < segments_; moved = true) {
      child.up.post_aside(segment(child.up.posted()).size());
    }
  }
  for (; reduced_ < segments_ && (!parent_ || parent_->up.has_room()) && gather(); ++reduced_, moved = true) {
    reduce(reduced_);
    if (parent_) parent_->up.send(segment(reduced_));
  }
  return moved;
}

// Whether all children's next segment has come.
bool TreeFlow::gather() {
  return std::all_of(children_.begin(), children_.end(), [](Child& child) { return child.up.has_come(); });
}

void TreeFlow::reduce(std::size_t index) {
  const std::size_t count = segment(index).size() / element_;
  std::byte* const own = segment(index).data();
  prescale_in_place(*plan_.reduction, own, count);
  if (children_.empty()) return;
  const std::byte* partials[3] = {own};
  for (std::size_t i = 0; i < children_.size(); ++i) partials[i + 1] = children_[i].up.oldest();
  if (parent_) std::swap(partials[0], partials[1]);  // the first child's places come before this one's
  combine(*plan_.reduction, std::span(partials).first(children_.size() + 1), {&own, 1}, count, {!parent_, size_});
  for (Child& child : children_) child.up.take();
}

std::size_t TreeFlow::final_here() const {
  if (parent_) return parent_->down.taken();
  return plan_.reduction ? reduced_ : segments_;
}

// What comes down replaces what was sent up: that must be gone.
bool TreeFlow::may_receive() const {
  const std::size_t next = parent_->down.posted();
  return next < segments_ && parent_->down.has_room() && (!plan_.reduction || next < parent_->up.done());
}

bool TreeFlow::move_down() {
  bool moved = false;
  if (parent_) {
    for (; may_receive(); moved = true) parent_->down.post(segment(parent_->down.posted()));
    for (; parent_->down.has_come(); moved = true) parent_->down.take();
  }
  for (Child& child : children_) {
    moved |= child.down.reap();
    for (; child.down.has_room() && child.down.begun() < final_here(); moved = true) {
      child.down.send(segment(child.down.begun()));
    }
  }
  return moved;
}

bool TreeFlow::complete() const {
  if (segments_ == 0) return true;
  return final_here() == segments_ && std::all_of(children_.begin(), children_.end(), [this](const Child& child) {
           return child.down.done() == segments_;
         });
}

std::vector<Rank> TreeFlow::waiting_for() const {
  if (complete()) return {};
  std::vector<Rank> ranks;
  if (plan_.reduction && reduced_ < segments_) {
    for (const Child& child : children_) {
      if (child.up.taken() == reduced_) ranks.push_back(child.up.from());
    }
    if (!ranks.empty()) return ranks;
  }
  if (parent_ && parent_->down.taken() < segments_) return {parent_->down.from()};
  for (const Child& child : children_) {
    if (child.down.done() < segments_) ranks.push_back(child.down.to());
  }
  return ranks;
}

}  // namespace kolo::collectives
