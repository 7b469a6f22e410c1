#pragma once
// An operation made of others, one after another.
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "comm/hierarchy.h"

namespace kolo::comm {

// The stages use communicators that all operations of the hierarchy use: from the group's turn only, so that all ranks
// start them in the same order. What the stages share is kept alive by their functions.
class StagedOperation final : public collectives::QueuedMachine {
 public:
  enum class Where { inside, across };
  struct Stage {
    Where where;
    // Starts it. Null: nothing to wait for.
    std::function<std::unique_ptr<Operation>()> start;
  };

  StagedOperation(const HierarchyPtr& hierarchy, std::vector<Stage> stages)
      : QueuedMachine(hierarchy->group(), hierarchy, hierarchy->turns()),
        hierarchy_(*hierarchy),
        stages_(std::move(stages)) {}

  [[nodiscard]] std::vector<Rank> waiting_for() const override {
    if (current_ == nullptr) return {};
    const auto ranks = current_->waiting_for();
    return stages_[stage_].where == Where::inside ? hierarchy_.named_inside(ranks) : hierarchy_.named_across(ranks);
  }

 private:
  bool turn() override {
    for (; stage_ < stages_.size(); ++stage_) {
      if (current_ == nullptr) current_ = stages_[stage_].start();
      if (current_ != nullptr && !current_->advance()) {
        if (hierarchy_.inside().made_progress()) group().moved = true;
        return false;
      }
      current_.reset();
    }
    return true;
  }

  Hierarchy& hierarchy_;  // kept alive by QueuedMachine
  std::vector<Stage> stages_;
  std::size_t stage_ = 0;
  std::unique_ptr<Operation> current_;
};

}  // namespace kolo::comm
