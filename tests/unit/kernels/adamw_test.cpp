#include <gtest/gtest.h>

#include "kernels/adamw_arguments.h"
#include "unit/kernels/update_fixture.h"

namespace kolo::kernels::test {
namespace {

constexpr double kBeta1 = 0.9, kBeta2 = 0.999, kEpsilon = 1e-8, kLr = 1e-2;

AdamwArguments arguments_of(double weight_decay, const UpdateState& state) {
  AdamwArguments arguments;
  arguments.gradients.state = &state;
  arguments.lr = static_cast<float>(kLr);
  arguments.shrink = static_cast<float>(1 - kLr * weight_decay);
  arguments.keep1 = static_cast<float>(kBeta1);
  arguments.take1 = static_cast<float>(1 - kBeta1);
  arguments.keep2 = static_cast<float>(kBeta2);
  arguments.take2 = static_cast<float>(1 - kBeta2);
  arguments.epsilon = static_cast<float>(kEpsilon);
  return arguments;
}

// torch's sequence of operations, one array at a time, each rounded to fp32: mul_, mul_ and add_, mul_ and addcmul_,
// sqrt, div and add_, addcdiv_.
void reference(float* weight, float* first, float* second, const std::vector<float>& gradient, double weight_decay,
               const UpdateState& state) {
  const float step = static_cast<float>(kLr) / state.correction1;
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    weight[i] *= static_cast<float>(1 - kLr * weight_decay);
    first[i] *= static_cast<float>(kBeta1);
    first[i] += static_cast<float>(1 - kBeta1) * gradient[i];
    second[i] *= static_cast<float>(kBeta2);
    const float weighted = static_cast<float>(1 - kBeta2) * gradient[i];
    second[i] += weighted * gradient[i];
    const float root = std::sqrt(second[i]) / state.correction2_root;
    const float divisor = root + static_cast<float>(kEpsilon);
    const float moved = step * first[i];
    weight[i] -= moved / divisor;
  }
}

TEST(Adamw, SameNumbersAsTheReferenceStepAfterStep) {
  for (const double weight_decay : {0.0, 1e-2}) {
    for (const UpdateLayout& layout : update_layouts(3)) {
      Update update(layout);
      KernelValue<UpdateState> state;
      const std::pmr::vector<std::uint32_t> skips{1, 0, 0, 1, 0};
      for (const std::uint32_t& skip : skips) {
        update.new_gradients(skip != 0);
        run_kernel("kolo_begin_update", BeginUpdate{state.get(), &skip, kBeta1, kBeta2}, {1, 1});
        AdamwArguments arguments = arguments_of(weight_decay, *state);
        arguments.gradients.skip = &skip;
        arguments.gradients.scale = 0.5F;
        update.run("kolo_adamw", arguments);
        for (std::size_t k = 0; k < std::size(Update::kCounts) && skip == 0; ++k) {
          if (k == Update::kMissing) continue;
          reference(update.expected(0, k), update.expected(1, k), update.expected(2, k), update.gradients(k, 0.5F),
                    weight_decay, *state);
        }
        update.compare("decay " + std::to_string(weight_decay) + ", gradients " +
                       std::string(name_of(layout.gradient_type)) + ", step " + std::to_string(state->steps));
        if (HasFatalFailure()) return;
      }
      EXPECT_EQ(state->steps, 3u);
    }
  }
}

// Against the textbook in fp64, over many steps: nothing drifts.
TEST(Adamw, StaysNearTheSameInDoubles) {
  KernelValue<float> weight(0.75F), first(0), second(0), gradient;
  double exact = *weight, m = 0, v = 0;
  KernelValue<UpdateState> state;
  const HostTable table({{0, 1}},
                        {reinterpret_cast<std::byte*>(weight.get()), reinterpret_cast<std::byte*>(first.get()),
                         reinterpret_cast<std::byte*>(second.get())},
                        16);
  for (int t = 1; t <= 500; ++t) {
    *gradient = std::sin(static_cast<float>(t)) + 0.25F;
    run_kernel("kolo_begin_update", BeginUpdate{state.get(), nullptr, kBeta1, kBeta2}, {1, 1});
    AdamwArguments arguments = arguments_of(1e-2, *state);
    arguments.table = table.view();
    arguments.gradients.bucket = gradient.get();
    run_kernel("kolo_adamw", arguments, {1, 1});
    exact *= 1 - kLr * 1e-2;
    m = kBeta1 * m + (1 - kBeta1) * *gradient;
    v = kBeta2 * v + (1 - kBeta2) * *gradient * *gradient;
    exact -= kLr * (m / (1 - std::pow(kBeta1, t))) / (std::sqrt(v / (1 - std::pow(kBeta2, t))) + kEpsilon);
    ASSERT_NEAR(*weight, exact, 1e-4) << "step " << t;
  }
}

TEST(BeginUpdate, CountsStepsAndCorrects) {
  KernelValue<UpdateState> state;
  KernelValue<std::uint32_t> skip;
  std::uint32_t skipped = 0;
  for (std::uint32_t call = 1; call <= 3000; ++call) {
    *skip = call % 7 == 0 ? 1 : 0;
    skipped += *skip;
    run_kernel("kolo_begin_update", BeginUpdate{state.get(), skip.get(), kBeta1, kBeta2}, {1, 1});
    ASSERT_EQ(state->skipped, skipped);
    ASSERT_EQ(state->steps, call - skipped);
    ASSERT_FLOAT_EQ(state->correction1, static_cast<float>(1 - std::pow(kBeta1, state->steps)));
    ASSERT_FLOAT_EQ(state->correction2_root, static_cast<float>(std::sqrt(1 - std::pow(kBeta2, state->steps))));
  }
}

}  // namespace
}  // namespace kolo::kernels::test
