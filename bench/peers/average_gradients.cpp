#include "average_gradients.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>
#include <mpi.h>

#include <cmath>
#include <cstring>
#include <memory>

#include "kolo/error.h"

namespace kolo::bench {
namespace {

int ranks() {
  int size = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return size;
}

void sum_over_ranks(const at::Tensor& tensor) {
  MPI_Allreduce(MPI_IN_PLACE, tensor.mutable_data_ptr<float>(), static_cast<int>(tensor.numel()), MPI_FLOAT, MPI_SUM,
                MPI_COMM_WORLD);
}

// Keeps the buffer of all gradients.
class PackedAverage {
 public:
  void operator()(const std::vector<at::Tensor>& gradients) {
    if (!buffer_.defined()) buffer_ = at::empty({elements_of(gradients)}, at::kFloat);
    for_each(gradients, [](float* packed, const at::Tensor& gradient) {
      std::memcpy(packed, gradient.const_data_ptr<float>(), gradient.nbytes());
    });
    sum_over_ranks(buffer_);
    buffer_.div_(ranks());
    for_each(gradients, [](const float* packed, const at::Tensor& gradient) {
      std::memcpy(gradient.mutable_data_ptr<float>(), packed, gradient.nbytes());
    });
  }

 private:
  static std::int64_t elements_of(const std::vector<at::Tensor>& gradients) {
    std::int64_t elements = 0;
    for (const at::Tensor& gradient : gradients) elements += gradient.numel();
    return elements;
  }

  template <class Action>
  void for_each(const std::vector<at::Tensor>& gradients, Action&& action) {
    float* packed = buffer_.mutable_data_ptr<float>();
    for (const at::Tensor& gradient : gradients) {
      action(packed, gradient);
      packed += gradient.numel();
    }
  }

  at::Tensor buffer_;
};

void average_in_loop(const std::vector<at::Tensor>& gradients) {
  for (const at::Tensor& gradient : gradients) sum_over_ranks(gradient);
  for (const at::Tensor& gradient : gradients) gradient.div_(ranks());
}

void average_like_torchfort(const std::vector<at::Tensor>& gradients) {
  for (const at::Tensor& gradient : gradients) {
    sum_over_ranks(gradient);
    gradient.div_(ranks());
  }
}

// Returns a weighted sum of each gradient's elements. The weights rise from 1 to 2, so swapped elements change the sum.
std::vector<double> weighted_sums(const std::vector<at::Tensor>& gradients, bool absolute) {
  std::vector<double> sums;
  for (const at::Tensor& gradient : gradients) {
    const at::Tensor values = gradient.flatten().to(at::kDouble);
    const at::Tensor weights = at::linspace(1, 2, values.numel(), at::kDouble);
    sums.push_back((absolute ? values.abs() : values).dot(weights).item<double>());
  }
  return sums;
}

std::vector<double> mean_over_ranks(std::vector<double> values) {
  MPI_Allreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()), MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  for (double& value : values) value /= ranks();
  return values;
}

}  // namespace

AverageGradients make_average(const std::string& way) {
  if (way == "mpi")
    return [packed = std::make_shared<PackedAverage>()](const auto& gradients) { (*packed)(gradients); };
  if (way == "loop") return average_in_loop;
  if (way == "torchfort") return average_like_torchfort;
  throw UsageError("--way: unknown way '" + way + "'; use mpi, loop or torchfort");
}

MeanCheck::MeanCheck(const std::vector<at::Tensor>& gradients)
    : means_(mean_over_ranks(weighted_sums(gradients, false))),
      magnitudes_(mean_over_ranks(weighted_sums(gradients, true))) {}

void MeanCheck::verify(const std::vector<at::Tensor>& gradients) const {
  constexpr double kTolerance = 1e-4;  // of fp32 sums over many ranks
  const std::vector<double> sums = weighted_sums(gradients, false);
  for (std::size_t i = 0; i < sums.size(); ++i) {
    if (std::abs(sums[i] - means_[i]) <= kTolerance * magnitudes_[i]) continue;
    throw Error("gradient " + std::to_string(i) + " is not the mean over the ranks: its weighted sum is " +
                std::to_string(sums[i]) + ", not " + std::to_string(means_[i]) +
                ". Are all ranks on hosts with the same MPI library?");
  }
}

}  // namespace kolo::bench
