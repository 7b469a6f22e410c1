#include "totals.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>

namespace imagenet {

Totals::Totals(const c10::Device& device, std::size_t count) : host_(count, 0.0) {
  if (device.is_cpu()) return;
  device_ = at::zeros({static_cast<std::int64_t>(count)}, at::TensorOptions().device(device).dtype(at::kDouble));
}

void Totals::add(std::size_t which, const at::Tensor& value, double weight) {
  if (!device_.defined()) {
    host_[which] += weight * value.item<double>();
    return;
  }
  const at::NoGradGuard no_grad;
  device_.select(0, static_cast<std::int64_t>(which)).add_(value, weight);
}

std::vector<double> Totals::read() const {
  std::vector<double> sums = host_;
  if (!device_.defined()) return sums;
  const at::Tensor there = device_.cpu();
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += there.const_data_ptr<double>()[i];
  return sums;
}

}  // namespace imagenet
