#pragma once
// Averages gradients over the ranks of MPI_COMM_WORLD after backward, as programs do that use MPI without kolo.
//
//   const AverageGradients average = make_average("mpi");
//   const MeanCheck check(gradients);  // optional
//   average(gradients);
//   check.verify(gradients);
#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

namespace kolo::bench {

// Replaces each gradient by its mean over the ranks. Collective. REQUIRES: fp32 in CPU memory without gaps, with equal
// strides on all ranks.
using AverageGradients = std::function<void(const std::vector<at::Tensor>& gradients)>;

// mpi        copies all gradients into one buffer, calls MPI_Allreduce once, divides, and copies them back
// loop       calls MPI_Allreduce for each gradient, one after another, then divides all
// torchfort  for each gradient: MPI_Allreduce, then a division
//
// Throws UsageError for other names.
[[nodiscard]] AverageGradients make_average(const std::string& way);

// Compares averaged gradients with the mean of the ranks' gradients, by a weighted sum of each.
class MeanCheck {
 public:
  // `gradients`: before they are averaged. Collective.
  explicit MeanCheck(const std::vector<at::Tensor>& gradients);
  // Throws Error that names the first wrong gradient.
  void verify(const std::vector<at::Tensor>& gradients) const;

 private:
  std::vector<double> means_;       // of the weighted sums, over the ranks
  std::vector<double> magnitudes_;  // the same of absolute values
};

}  // namespace kolo::bench
