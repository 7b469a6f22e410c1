#include <gtest/gtest.h>

#include "kernels/sgd_arguments.h"
#include "torch/update_loops.h"
#include "unit/kernels/update_fixture.h"

namespace kolo::kernels::test {
namespace {

constexpr SgdTerms kTerms[] = {
    {0.1, 0, 0, 0, false},      {0.1, 0, 0, 1e-2, false},  {0.05, 0.9, 0, 0, false}, {0.05, 0.9, 0, 1e-4, false},
    {0.05, 0.9, 0.1, 0, false}, {0.3, 0.8, 0, 5e-4, true}, {0.3, 0.8, 0, 0, true},
};

SgdArguments arguments_of(const SgdTerms& terms) {
  SgdArguments arguments;
  arguments.lr = static_cast<float>(terms.lr);
  arguments.keep = static_cast<float>(terms.momentum);
  arguments.take = static_cast<float>(1 - terms.dampening);
  arguments.decay = static_cast<float>(terms.weight_decay);
  arguments.with_momentum = terms.momentum != 0;
  arguments.with_decay = terms.weight_decay != 0;
  arguments.nesterov = terms.nesterov;
  arguments.first = terms.first;
  return arguments;
}

// With the host's own update, step after step.
TEST(Sgd, SameNumbersAsOnTheHost) {
  for (const SgdTerms& terms : kTerms) {
    const bool momentum = terms.momentum != 0;
    for (const UpdateLayout& layout : update_layouts(momentum ? 2 : 1)) {
      Update update(layout);
      for (int step = 0; step < 3; ++step) {
        update.new_gradients();
        SgdTerms now = terms;
        now.first = step == 0;
        SgdArguments arguments = arguments_of(now);
        arguments.scale = 1.0F / (static_cast<float>(step) + 2);
        update.run("kolo_sgd", arguments);
        for (std::size_t k = 0; k < std::size(Update::kCounts); ++k) {
          if (k == Update::kMissing) continue;
          const std::vector<float> gradients = update.gradients(k, arguments.scale);
          sgd_update({DType::f32, update.expected(0, k), momentum ? update.expected(1, k) : nullptr, nullptr,
                      gradients.data(), gradients.size()},
                     now);
        }
        update.compare("step " + std::to_string(step) + " of momentum " + std::to_string(terms.momentum) +
                       (terms.nesterov ? " nesterov" : ""));
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(Sgd, NoDecayMakesNoNaNOfAnInfiniteWeight) {
  KernelValue<float> weight(std::numeric_limits<float>::infinity()), gradient(1);
  const HostTable table({{0, 1}},
                        {reinterpret_cast<std::byte*>(gradient.get()), reinterpret_cast<std::byte*>(weight.get())}, 16);
  SgdArguments arguments = arguments_of({0.1, 0, 0, 0, false});
  arguments.table = table.view();
  run_kernel("kolo_sgd", arguments, {1, 32});
  EXPECT_EQ(*weight, std::numeric_limits<float>::infinity());
}

}  // namespace
}  // namespace kolo::kernels::test
