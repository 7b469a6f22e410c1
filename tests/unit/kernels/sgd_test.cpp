#include <gtest/gtest.h>

#include "kernels/sgd_arguments.h"
#include "torch/sgd_update.h"
#include "unit/kernels/update_fixture.h"

namespace kolo::kernels::test {
namespace {

constexpr SgdTerms kTerms[] = {
    {0.1, 0, 0, 0, false},      {0.1, 0, 0, 1e-2, false},  {0.05, 0.9, 0, 0, false}, {0.05, 0.9, 0, 1e-4, false},
    {0.05, 0.9, 0.1, 0, false}, {0.3, 0.8, 0, 5e-4, true}, {0.3, 0.8, 0, 0, true},
};

SgdArguments arguments_of(const SgdTerms& terms, const UpdateState& state) {
  SgdArguments arguments;
  arguments.gradients.state = &state;
  arguments.lr = static_cast<float>(terms.lr);
  arguments.keep = static_cast<float>(terms.momentum);
  arguments.take = static_cast<float>(1 - terms.dampening);
  arguments.decay = static_cast<float>(terms.weight_decay);
  arguments.with_momentum = terms.momentum != 0;
  arguments.with_decay = terms.weight_decay != 0;
  arguments.nesterov = terms.nesterov;
  return arguments;
}

// With the host's own update, step after step.
TEST(Sgd, SameNumbersAsOnTheHost) {
  for (const SgdTerms& terms : kTerms) {
    for (const UpdateLayout& layout : update_layouts(terms.momentum != 0 ? 2 : 1)) {
      Update update(layout);
      KernelValue<UpdateState> state;
      KernelValue<float> inverse_scale(1.0F / 3);
      for (int step = 0; step < 3; ++step) {
        update.new_gradients();
        run_kernel("kolo_begin_update", BeginUpdate{state.get()}, {1, 1});
        SgdArguments arguments = arguments_of(terms, *state);
        arguments.gradients.scale = 0.25F;
        arguments.gradients.inverse_scale = step == 2 ? inverse_scale.get() : nullptr;
        update.run("kolo_sgd", arguments);
        const float scale = step == 2 ? 0.25F * *inverse_scale : 0.25F;
        for (std::size_t k = 0; k < std::size(Update::kCounts); ++k) {
          if (k == Update::kMissing) continue;
          SgdTerms now = terms;
          now.first = step == 0;
          sgd_update(update.expected(0, k), terms.momentum != 0 ? update.expected(1, k) : nullptr,
                     update.gradients(k, scale).data(), Update::kCounts[k], now);
        }
        update.compare("step " + std::to_string(step) + " of momentum " + std::to_string(terms.momentum) +
                       (terms.nesterov ? " nesterov" : "") + ", gradients " +
                       std::string(name_of(layout.gradient_type)));
        if (HasFatalFailure()) return;
      }
    }
  }
}

// The first step that is done is the first, however many were skipped before: its momentum is the gradient.
TEST(Sgd, AStepThatIsSkippedLeavesEverythingAsItIs) {
  const SgdTerms terms{0.05, 0.9, 0.5, 1e-4, false};
  for (const UpdateLayout& layout : update_layouts(2)) {
    Update update(layout);
    KernelValue<UpdateState> state;
    const std::pmr::vector<std::uint32_t> skips{1, 0, 7, 0};
    int done = 0;
    for (const std::uint32_t& skip : skips) {
      update.new_gradients(skip != 0);
      run_kernel("kolo_begin_update", BeginUpdate{state.get(), &skip}, {1, 1});
      SgdArguments arguments = arguments_of(terms, *state);
      arguments.gradients.skip = &skip;
      update.run("kolo_sgd", arguments);
      for (std::size_t k = 0; k < std::size(Update::kCounts) && skip == 0; ++k) {
        if (k == Update::kMissing) continue;
        SgdTerms now = terms;
        now.first = done == 0;
        sgd_update(update.expected(0, k), update.expected(1, k), update.gradients(k, 1).data(), Update::kCounts[k],
                   now);
      }
      done += skip == 0 ? 1 : 0;
      update.compare("after a skip of " + std::to_string(skip));
      if (HasFatalFailure()) return;
    }
    EXPECT_EQ(state->steps, 2u);
    EXPECT_EQ(state->skipped, 2u);
  }
}

TEST(Sgd, NoDecayMakesNoNaNOfAnInfiniteWeight) {
  KernelValue<float> weight(std::numeric_limits<float>::infinity()), gradient(1);
  KernelValue<UpdateState> state({1, 0, 1, 1});
  const HostTable table({{0, 1}}, {reinterpret_cast<std::byte*>(weight.get())}, 16);
  SgdArguments arguments = arguments_of({0.1, 0, 0, 0, false}, *state);
  arguments.table = table.view();
  arguments.gradients.bucket = gradient.get();
  run_kernel("kolo_sgd", arguments, {1, 32});
  EXPECT_EQ(*weight, std::numeric_limits<float>::infinity());
}

}  // namespace
}  // namespace kolo::kernels::test
