// What comes out of the two steps, by number: every type that gradients have, and the bits that the hosts make.
#include <gtest/gtest.h>

#include "base/float16.h"
#include "multirank/device/training.h"

namespace kolo::test {
namespace {

constexpr std::int64_t kCount = 1001;

DeviceWorld::Options two_by_two(TwoSteps way) { return in_two_steps(way, {0, 0, 1, 1}); }

std::vector<std::byte> filled(DType dtype, float value) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(kCount) * size_of(dtype));
  const auto fill = [&](auto element) {
    for (std::size_t i = 0; i < bytes.size(); i += sizeof(element)) std::memcpy(&bytes[i], &element, sizeof(element));
  };
  if (dtype == DType::f64) fill(static_cast<double>(value));
  if (dtype == DType::f32) fill(value);
  if (dtype == DType::f16) fill(base::f32_to_f16(value));
  if (dtype == DType::bf16) fill(base::f32_to_bf16(value));
  return bytes;
}

// One gradient of `dtype` on the rank's device, filled with `value`; what it is after a round.
std::vector<std::byte> round_of(DeviceWorld& world, Context& context, DType dtype, float value) {
  const std::vector<std::byte> mine = filled(dtype, value);
  const cuda::OwnStream user(world.runtime(), context.rank());
  const cuda::DeviceBuffer gradient(world.runtime(), context.rank(), mine.size());
  world.device().write(gradient.data(), mine.data(), mine.size());
  ReducerOptions options;
  options.device = context.rank();
  auto reducer = context.engine().make_reducer({{"p", {kCount}, {1}, dtype, true}}, options);
  reducer->contribute(0, gradient.data(), user.view());
  reducer->finish(user.view());
  world.runtime()->api().stream_synchronize(user.view().handle);
  std::vector<std::byte> found(mine.size());
  world.device().peek(found.data(), reducer->gradient(0).data(), found.size());
  return found;
}

class ShareTypes : public testing::TestWithParam<std::tuple<TwoSteps, DType>> {};
INSTANTIATE_TEST_SUITE_P(Types, ShareTypes,
                         testing::Combine(testing::ValuesIn(kTwoSteps),
                                          testing::Values(DType::f16, DType::bf16, DType::f32, DType::f64)));

TEST_P(ShareTypes, AreAveraged) {
  const auto& [way, dtype] = GetParam();
  DeviceWorld world(two_by_two(way));
  world.run([&, type = dtype](Context& context) {
    const auto found = round_of(world, context, type, static_cast<float>(4 * context.rank()));
    EXPECT_EQ(found, filled(type, 6.0F)) << "rank " << context.rank();
  });
}

// All add up inside the host by rank, then the two hosts; that four divide first or last, rounds nothing.
class ShareBits : public testing::TestWithParam<TwoSteps> {};
INSTANTIATE_TEST_SUITE_P(Ways, ShareBits, testing::ValuesIn(kTwoSteps));

TEST_P(ShareBits, AreThoseOfGradientsOnTheHost) {
  DeviceWorld world(two_by_two(GetParam()));
  expect_bits_of_the_host(world);
}

}  // namespace
}  // namespace kolo::test
