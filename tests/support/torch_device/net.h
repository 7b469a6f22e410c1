#pragma once
// A net of two layers, small enough to be trained a hundred times, that trains alike on the CPU and on a device.
#include <ATen/Parallel.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/tensor.h>
#include <torch/csrc/autograd/variable.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace kolo::test {

// Numbers that belong to `seed`, made on the CPU: torch's generator is shared by ranks that are threads.
inline at::Tensor numbers(std::uint64_t seed, const std::vector<std::int64_t>& sizes) {
  std::int64_t count = 1;
  for (const auto size : sizes) count *= size;
  std::vector<float> values;
  for (std::int64_t i = 0; i < count; ++i) {
    seed = seed * 6364136223846793005U + 1442695040888963407U;
    values.push_back(static_cast<float>(seed >> 40) / 8388608.0F - 1.0F);
  }
  return at::tensor(values).view(sizes);
}

class Net {
 public:
  explicit Net(const c10::Device& device, std::uint64_t seed = 1) : device_(device) {
    const std::vector<std::vector<std::int64_t>> sizes{{16, 6}, {16}, {3, 16}, {3}};
    for (const auto& each : sizes) {
      at::Tensor parameter = (numbers(seed++, each) * 0.3).to(device_);
      parameters_.push_back(parameter.requires_grad_());
    }
  }

  [[nodiscard]] const std::vector<at::Tensor>& parameters() const { return parameters_; }
  [[nodiscard]] std::vector<std::pair<std::string, at::Tensor>> named() const {
    return {{"first.weight", parameters_[0]},
            {"first.bias", parameters_[1]},
            {"second.weight", parameters_[2]},
            {"second.bias", parameters_[3]}};
  }
  // Of one batch; `seed` says which.
  [[nodiscard]] at::Tensor loss(std::uint64_t seed) const {
    const at::Tensor input = numbers(2 * seed, {5, 6}).to(device_);
    const at::Tensor target = numbers(2 * seed + 1, {5, 3}).to(device_);
    const at::Tensor hidden = at::relu(at::linear(input, parameters_[0], parameters_[1]));
    return (at::linear(hidden, parameters_[2], parameters_[3]) - target).pow(2).mean();
  }
  // On the CPU. Waits for the current stream.
  [[nodiscard]] std::vector<at::Tensor> values() const {
    std::vector<at::Tensor> all;
    for (const auto& parameter : parameters_) all.push_back(parameter.detach().cpu().clone());
    return all;
  }

 private:
  c10::Device device_;
  std::vector<at::Tensor> parameters_;
};

}  // namespace kolo::test
