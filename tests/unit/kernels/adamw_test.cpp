#include <gtest/gtest.h>

#include <cmath>

#include "base/adamw_factors.h"
#include "kernels/adamw_arguments.h"
#include "torch/update_loops.h"
#include "unit/kernels/update_fixture.h"

namespace kolo::kernels::test {
namespace {

constexpr double kBeta1 = 0.9, kBeta2 = 0.999, kEpsilon = 1e-8, kLr = 1e-2;

AdamwArguments arguments_of(double weight_decay, int number) {
  const auto factors = base::adamw_factors({kLr, kBeta1, kBeta2, kEpsilon, weight_decay, number});
  AdamwArguments arguments;
  arguments.step = static_cast<float>(factors.step);
  arguments.shrink = static_cast<float>(factors.shrink);
  arguments.keep1 = static_cast<float>(factors.keep1);
  arguments.take1 = static_cast<float>(factors.take1);
  arguments.keep2 = static_cast<float>(factors.keep2);
  arguments.take2 = static_cast<float>(factors.take2);
  arguments.root = static_cast<float>(factors.root);
  arguments.epsilon = static_cast<float>(factors.epsilon);
  return arguments;
}

// torch's sequence of operations, one array at a time, each rounded to fp32: mul_, mul_ and add_, mul_ and addcmul_,
// sqrt, div and add_, addcdiv_.
void reference(float* weight, float* first, float* second, const std::vector<float>& gradient,
               const AdamwArguments& terms) {
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    weight[i] *= terms.shrink;
    first[i] *= terms.keep1;
    first[i] += terms.take1 * gradient[i];
    second[i] *= terms.keep2;
    const float weighted = terms.take2 * gradient[i];
    second[i] += weighted * gradient[i];
    const float root = std::sqrt(second[i]) / terms.root;
    const float divisor = root + terms.epsilon;
    const float moved = terms.step * first[i];
    weight[i] -= moved / divisor;
  }
}

// And the host's own update has the same.
TEST(Adamw, SameNumbersAsTheReferenceStepAfterStep) {
  for (const double weight_decay : {0.0, 1e-2}) {
    for (const UpdateLayout& layout : update_layouts(3)) {
      Update update(layout), host(layout);
      for (int number = 1; number <= 4; ++number) {
        update.new_gradients();
        AdamwArguments arguments = arguments_of(weight_decay, number);
        arguments.scale = 0.5F;
        update.run("kolo_adamw", arguments);
        const AdamwTerms terms{kLr, kBeta1, kBeta2, kEpsilon, weight_decay, number};
        for (std::size_t k = 0; k < std::size(Update::kCounts); ++k) {
          if (k == Update::kMissing) continue;
          const std::vector<float> gradients = update.gradients(k, 0.5F);
          reference(update.expected(0, k), update.expected(1, k), update.expected(2, k), gradients, arguments);
          const float* const weight = host.expected(0, k);
          adamw_update({DType::f32, host.expected(0, k), host.expected(1, k), host.expected(2, k), gradients.data(),
                        gradients.size()},
                       terms);
          ASSERT_TRUE(std::equal(weight, weight + gradients.size(), update.expected(0, k))) << number;
        }
        update.compare("decay " + std::to_string(weight_decay) + ", step " + std::to_string(number));
        if (HasFatalFailure()) return;
      }
    }
  }
}

// Against the textbook in fp64, over many steps: nothing drifts.
TEST(Adamw, StaysNearTheSameInDoubles) {
  KernelValue<float> weight(0.75F), first(0), second(0), gradient;
  double exact = *weight, m = 0, v = 0;
  std::vector<std::byte*> addresses;
  for (float* value : {gradient.get(), weight.get(), first.get(), second.get()}) {
    addresses.push_back(reinterpret_cast<std::byte*>(value));
  }
  const HostTable table({{0, 1}}, addresses, 16);
  for (int t = 1; t <= 500; ++t) {
    *gradient = std::sin(static_cast<float>(t)) + 0.25F;
    AdamwArguments arguments = arguments_of(1e-2, t);
    arguments.table = table.view();
    run_kernel("kolo_adamw", arguments, {1, 1});
    exact *= 1 - kLr * 1e-2;
    m = kBeta1 * m + (1 - kBeta1) * *gradient;
    v = kBeta2 * v + (1 - kBeta2) * *gradient * *gradient;
    exact -= kLr * (m / (1 - std::pow(kBeta1, t))) / (std::sqrt(v / (1 - std::pow(kBeta2, t))) + kEpsilon);
    ASSERT_NEAR(*weight, exact, 1e-4) << "step " << t;
  }
}

}  // namespace
}  // namespace kolo::kernels::test
