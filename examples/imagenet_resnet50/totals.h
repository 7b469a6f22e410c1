#pragma once
// Sums of numbers that are computed on a device: they stay there until they are asked for, and nobody waits.
#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstddef>
#include <vector>

namespace imagenet {

class Totals {
 public:
  Totals(const c10::Device& device, std::size_t count);
  void add(std::size_t which, double value) { host_[which] += value; }
  // A tensor of one element.
  void add(std::size_t which, const at::Tensor& value, double weight = 1);
  // Waits for the device.
  [[nodiscard]] std::vector<double> read() const;

 private:
  std::vector<double> host_;
  at::Tensor device_;  // undefined on the CPU, where nothing is gained by waiting
};

}  // namespace imagenet
