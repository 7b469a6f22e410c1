#pragma once
// Keeps the parameter groups of a DistributedOptimizer ("outer") and of the optimizer in it ("inner") equal.
//
// torch::optim::Optimizer::param_groups() is not virtual, so each of the two has groups of its own. `last_` is what
// both were when they were last made equal: of each option and each list of parameters, the side that differs from
// `last_` was changed by the program and is copied to the other side, in place.
#include <torch/optim/optimizer.h>

#include <memory>
#include <vector>

namespace kolo {

class ParamGroupSync {
 public:
  using Groups = std::vector<torch::optim::OptimizerParamGroup>;
  // Both are borrowed and must outlive this object. The inner groups are copied to the outer ones.
  ParamGroupSync(Groups& outer, torch::optim::Optimizer& inner);

  // Throws UsageError if both sides were changed to different values; groups before that one are equal then.
  void reconcile();

 private:
  Groups& outer_;
  torch::optim::Optimizer& inner_;
  Groups last_;
};

}  // namespace kolo
