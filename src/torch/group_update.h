#pragma once
// One step of one parameter group: sorts its tensors by how each is updated, and has as few calls as that allows.
//
//   fp32 on the device of the launcher      one launch of kolo's kernel for the group
//   on a device, dense                      one call of torch's fused kernel for each type
//   in the host's memory, dense             kolo's loop, split over LibTorch's threads where the tensor is large
//   anything else                           the same on dense copies, which are copied back
//
// In the host's memory each element has the same bits for any number of threads and any instruction set: the loops
// compute it alone, whatever its place in the tensor (update_element.h).
//
// A group, and not a bucket, is what is launched: its tensors share their terms, so a bucket with tensors of two groups
// would take two launches, and a group over several buckets one each; and each gradient is read where it is, in a
// bucket or not, clipped, replaced or left out. Tensors of a group that have had another number of steps, because their
// gradients were missing once, take a launch of their own.
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "kolo/spi/optimizer_step.h"
#include "torch/update_loops.h"

namespace kolo {

// One parameter, what its optimizer keeps for it, in the order in which kernels take it, and its gradient.
struct Updated {
  at::Tensor weight;
  at::Tensor gradient;
  at::Tensor first;   // undefined: none
  at::Tensor second;  // undefined: none
};

struct UpdatedList {
  std::vector<at::Tensor> weights, gradients, firsts, seconds;  // the last two as long as the others, or empty
  void add(const Updated& tensors);
};

// What one optimizer computes, with one group's options. `number`: of the tensors' step, from 1.
class UpdateRule {
 public:
  virtual ~UpdateRule() = default;
  virtual void launch(StepLauncher& launcher, const StepBatch& batch, std::int64_t number, Stream stream) const = 0;
  // On a device that has no launcher, or for tensors that it does not take.
  virtual void by_torch(const UpdatedList& list, std::int64_t number) const = 0;
  // In the host's memory. Called by several threads at a time, with other elements.
  virtual void on_host(const UpdateArrays& arrays, std::int64_t number) const = 0;
};

// The error for a parameter, called `name`, whose elements share memory.
[[nodiscard]] std::string overlap_text(const std::string& name, const at::Tensor& tensor);
// Whether `launcher`, which may be null, takes a weight and its gradient.
[[nodiscard]] bool is_launched(const StepLauncher* launcher, const at::Tensor& weight, const at::Tensor& gradient);
// For a launch: the group's tensors, none of which has a gradient so far.
[[nodiscard]] std::vector<StepTensor> step_tensors(const std::vector<at::Tensor>& parameters);

class GroupUpdate {
 public:
  struct Where {
    StepLauncher* launcher = nullptr;  // null: none
    double gradient_scale = 1;         // as in StepBatch
    std::size_t group = 0;             // its number, and its place with the launcher
    const float* skip = nullptr;       // as in StepBatch
  };
  GroupUpdate(const UpdateRule& rule, const std::vector<at::Tensor>& parameters, const Where& where)
      : rule_(rule), parameters_(parameters), where_(where) {}

  // Adds the parameter at `index` of the group; updates it at once in the host's memory. If its
  // type is not floating, or its elements share memory, throws UsageError and changes nothing.
  void add(std::size_t index, Updated tensors, std::int64_t number);
  // The others.
  void run();

 private:
  void require_updatable(const Updated& tensors, std::size_t index) const;
  void on_host(const Updated& tensors, std::int64_t number) const;
  void on_device(const Updated& tensors, std::int64_t number);
  // Weights that share memory are updated one after the other, in their order; a launch updates all at the same time.
  [[nodiscard]] std::size_t turn_of(std::size_t index);

  // Torch's kernels take tensors of one device and type.
  using Kind = std::tuple<c10::DeviceType, c10::DeviceIndex, c10::ScalarType, std::int64_t>;

  const UpdateRule& rule_;
  const std::vector<at::Tensor>& parameters_;
  Where where_;
  // By the turn of those that must not be updated at the same time, and the number of the step.
  std::map<std::pair<std::size_t, std::int64_t>, std::vector<StepTensor>> launched_;
  std::optional<c10::Device> launched_on_;
  std::optional<bool> some_overlap_;  // of the group's weights; asked for when the first is launched
  std::map<Kind, UpdatedList> by_torch_;
};

}  // namespace kolo
