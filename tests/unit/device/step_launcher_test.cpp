// Optimizer steps by kolo's kernels: how many launches and copies they take, and what becomes of their tables.
#include "device/step_launcher.h"

#include <gtest/gtest.h>

#include <cmath>
#include <utility>

#include "support/device/kolo_kernels.h"
#include "support/device/simulated_device.h"

namespace kolo::device {
namespace {

using kolo::test::SimulatedDevice;

// Copies are counted; a simulated device has no other way to tell.
class Counting {
 public:
  static cuda::RuntimeApi over(const cuda::RuntimeApi& real) {
    real_ = real;
    copies = 0;
    cuda::RuntimeApi api = real;
    api.copy = [](void* to, const void* from, std::size_t bytes, cuda::CopyKind kind, cuda::StreamHandle stream) {
      ++copies;
      return real_.copy(to, from, bytes, kind, stream);
    };
    return api;
  }
  static inline int copies = 0;

 private:
  static inline cuda::RuntimeApi real_;
};

class Steps : public testing::Test {
 protected:
  static constexpr std::size_t kCount = 100;

  Steps() {
    kolo::test::add_kolo_kernels(device);
    make_launcher(nullptr);
  }
  void make_launcher(std::shared_ptr<cuda::HostWord> given_up) {
    launcher.reset();
    LaneParts parts;
    parts.given_up = std::move(given_up);
    parts.runtime = runtime;
    parts.kernels = std::make_shared<cuda::KernelImage>(runtime, "stands for device code");
    lane = std::make_unique<Lane>(std::move(parts));
    const auto retire = [this](std::shared_ptr<void> memory, Stream user) {
      retired_in = user.handle;
      lane->retire(std::move(memory), user);
    };
    launcher = std::make_unique<DeviceStepLauncher>(*lane, EngineLifetime(alive), retire);
  }
  ~Steps() override {
    launcher.reset();
    device.drain();
  }
  // Of fp32, all the same.
  cuda::DeviceBuffer tensor(float value) {
    cuda::DeviceBuffer buffer(runtime, 0, kCount * sizeof(float));
    const std::vector<float> values(kCount, value);
    device.write(buffer.data(), values.data(), buffer.size());
    return buffer;
  }
  float value_of(const cuda::DeviceBuffer& buffer) {
    device.drain();
    float value = 0;
    device.peek(&value, buffer.data(), sizeof value);
    return value;
  }
  static StepTensor plain(const cuda::DeviceBuffer& gradient, const cuda::DeviceBuffer& weight) {
    return {kCount, gradient.data(), weight.data(), nullptr, nullptr};
  }

  SimulatedDevice device{{.devices = 1, .seed = 5}};
  cuda::RuntimePtr runtime = std::make_shared<const cuda::Runtime>(Counting::over(device.api()));
  cuda::OwnStream stream{runtime, 0};
  std::shared_ptr<int> alive = std::make_shared<int>(0);
  std::unique_ptr<Lane> lane;
  std::unique_ptr<DeviceStepLauncher> launcher;
  void* retired_in = nullptr;
};

// Who might know when the device has passed what it uses has gone: that is lost, and nobody is asked.
TEST_F(Steps, ALauncherMayOutliveItsEngine) {
  const auto weight = tensor(1);
  const auto gradient = tensor(1);
  const std::vector<StepTensor> tensors{plain(gradient, weight)};
  launcher->launch({0, tensors}, SgdTerms{.lr = 0.5}, stream.view());
  auto read = launcher->read(reinterpret_cast<const float*>(weight.data()), stream.view());
  alive.reset();
  retired_in = nullptr;
  device.drain();
  EXPECT_EQ(read->poll(), 0.5F);
  EXPECT_EQ(launcher->device(), -1);
  EXPECT_THROW(launcher->launch({0, tensors}, SgdTerms{.lr = 0.5}, stream.view()), UsageError);
  read.reset();
  launcher.reset();
  EXPECT_EQ(retired_in, nullptr);
}

TEST_F(Steps, ABatchIsOneLaunchAndItsTableIsSentOnce) {
  const auto a = tensor(1), b = tensor(2), gradient = tensor(4);
  const std::vector<StepTensor> tensors{plain(gradient, a), plain(gradient, b), {kCount, nullptr, nullptr, {}, {}}};
  for (int step = 1; step <= 3; ++step) {
    launcher->launch({0, tensors, 0.5}, SgdTerms{0.25}, stream.view());
    EXPECT_EQ(device.launches("kolo_sgd"), step);
    EXPECT_EQ(Counting::copies, 1);
  }
  EXPECT_EQ(value_of(a), 1 - 3 * 0.5F);
  EXPECT_EQ(value_of(b), 2 - 3 * 0.5F);
  EXPECT_TRUE(device.violations().empty());
}

TEST_F(Steps, AddressesThatChangeAreSentAgain) {
  const auto a = tensor(1), gradient = tensor(4), other = tensor(8);
  launcher->launch({0, std::vector{plain(gradient, a)}}, SgdTerms{0.25}, stream.view());
  launcher->launch({0, std::vector{plain(other, a)}}, SgdTerms{0.25}, stream.view());
  launcher->launch({0, std::vector{plain(other, a)}}, SgdTerms{0.25}, stream.view());
  EXPECT_EQ(Counting::copies, 2);
  EXPECT_EQ(value_of(a), 1 - 1 - 2 - 2);
  EXPECT_EQ(retired_in, nullptr);
}

// A search for what is not finite comes between the steps, and has a table of its own.
TEST_F(Steps, SearchesAndPlacesHaveTablesOfTheirOwn) {
  const auto a = tensor(1), first = tensor(0), second = tensor(0), gradient = tensor(4), flag = tensor(0);
  const std::vector<StepTensor> tensors{{kCount, gradient.data(), a.data(), first.data(), second.data()}};
  for (int number = 1; number <= 3; ++number) {
    launcher->find_nonfinite({0, tensors}, reinterpret_cast<float*>(flag.data()), stream.view());
    launcher->launch({0, tensors}, AdamwTerms{0.5, 0.9, 0.999, 0, 0, number}, stream.view());
    launcher->launch({1, tensors}, SgdTerms{0.25}, stream.view());
  }
  EXPECT_EQ(Counting::copies, 3);
  EXPECT_NEAR(value_of(a), 1 - 3 * (1 + 0.5F), 1e-5);  // a gradient that stays the same moves by the rate
  EXPECT_EQ(value_of(flag), 0);
}

// The device reads the number when it comes to the step; the host learns it later, and waits for nothing.
TEST_F(Steps, TheDeviceLeavesOutAStepWhoseNumberIsNotZero) {
  const auto a = tensor(1), first = tensor(0), second = tensor(0), gradient = tensor(4), infinite = tensor(INFINITY);
  const auto flag = tensor(0);
  auto* const number = reinterpret_cast<float*>(flag.data());
  const auto tensors_of = [&](const cuda::DeviceBuffer& g) {
    return std::vector<StepTensor>{{kCount, g.data(), a.data(), first.data(), second.data()}};
  };
  const auto step = [&](const cuda::DeviceBuffer& g, const auto& terms) {
    const auto tensors = tensors_of(g);
    launcher->find_nonfinite({0, tensors}, number, stream.view());
    launcher->launch({0, tensors, 1, number}, terms, stream.view());
    return launcher->read(number, stream.view());
  };
  const auto good = step(gradient, SgdTerms{0.25});
  EXPECT_FALSE(good->poll().has_value()) << "nothing has run";
  const auto bad = step(infinite, SgdTerms{0.25});
  const auto skipped = step(gradient, AdamwTerms{0.5, 0.9, 0.999, 0, 0, 1});
  EXPECT_EQ(value_of(a), 1 - 1) << "the flag stays";
  EXPECT_EQ(value_of(first), 0);
  EXPECT_EQ(good->poll(), 0.0F);
  EXPECT_EQ(bad->poll(), 1.0F);
  EXPECT_EQ(skipped->poll(), 1.0F);
  EXPECT_TRUE(device.violations().empty());
}

// It comes to the step after the collectives that it is behind were aborted.
TEST_F(Steps, TheDeviceLeavesOutWhatIsBehindAnAbort) {
  const auto given_up = std::make_shared<cuda::HostWord>(runtime, 0);
  make_launcher(given_up);
  const auto a = tensor(1), b = tensor(1), first = tensor(0), second = tensor(0), gradient = tensor(4);
  const auto launch = [&] {
    launcher->launch({0, std::vector{plain(gradient, a)}}, SgdTerms{0.25}, stream.view());
    const std::vector<StepTensor> tensors{{kCount, gradient.data(), b.data(), first.data(), second.data()}};
    launcher->launch({1, tensors}, AdamwTerms{0.5, 0.9, 0.999, 0, 0, 1}, stream.view());
  };
  launch();
  EXPECT_EQ(value_of(a), 0);
  EXPECT_NEAR(value_of(b), 0.5F, 1e-5);
  const float before = value_of(b);
  launch();
  given_up->set();
  EXPECT_EQ(value_of(a), 0);
  EXPECT_EQ(value_of(b), before);
  EXPECT_TRUE(device.violations().empty());
}

TEST_F(Steps, MemoryOfAReadIsUsedAgainOrGoesWhenTheDeviceIsDone) {
  const auto flag = tensor(7);
  const auto* const number = reinterpret_cast<const float*>(flag.data());
  for (int round = 0; round < 3; ++round) {
    const auto late = launcher->read(number, stream.view());
    device.drain();
    EXPECT_EQ(late->poll(), 7.0F);
  }
  const std::size_t pinned = device.pinned_bytes();
  EXPECT_EQ(pinned, sizeof(float));
  launcher->read(number, stream.view()).reset();
  EXPECT_EQ(retired_in, stream.view().handle);
  EXPECT_EQ(device.pinned_bytes(), pinned) << "the device may still write there";
  device.drain();
  lane->watch();
  EXPECT_EQ(device.pinned_bytes(), 0U);
}

TEST_F(Steps, ATableThatDoesNotFitIsReplacedAndGoesWhenTheDeviceIsDone) {
  const auto a = tensor(1), b = tensor(2), gradient = tensor(4);
  launcher->launch({0, std::vector{plain(gradient, a)}}, SgdTerms{0.25}, stream.view());
  launcher->launch({0, std::vector{plain(gradient, a), plain(gradient, b)}}, SgdTerms{0.25}, stream.view());
  EXPECT_EQ(std::exchange(retired_in, nullptr), stream.view().handle);
  launcher.reset();
  EXPECT_EQ(retired_in, stream.view().handle);
  lane->watch();
  EXPECT_FALSE(lane->idle()) << "the device has not come to the launches yet";
  EXPECT_EQ(value_of(a), 1 - 2);
  EXPECT_EQ(value_of(b), 2 - 1);
  lane->watch();
  EXPECT_TRUE(lane->idle());
  EXPECT_TRUE(device.violations().empty());
}

TEST_F(Steps, WithAndWithoutMomentumAreDifferentTables) {
  const auto a = tensor(1), momentum = tensor(0), gradient = tensor(4);
  const std::vector<StepTensor> tensors{{kCount, gradient.data(), a.data(), momentum.data(), nullptr}};
  launcher->launch({0, tensors}, SgdTerms{0.25}, stream.view());
  launcher->launch({0, tensors}, SgdTerms{0.25, 0.5, 0, 0, false, true}, stream.view());
  EXPECT_EQ(retired_in, stream.view().handle);
  EXPECT_EQ(value_of(a), 1 - 1 - 1);
  EXPECT_EQ(value_of(momentum), 4);
}

}  // namespace
}  // namespace kolo::device
