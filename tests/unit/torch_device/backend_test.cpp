// The simulated device under torch: it computes what the CPU computes, and it finds what is missing.
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <gmock/gmock.h>
#include <torch/optim/sgd.h>

#include <thread>

#include "support/torch_device/net.h"
#include "support/torch_device/torch_device.h"

namespace kolo::test {
namespace {

constexpr int kSteps = 3;
constexpr std::uint64_t kSeeds = 20;

std::vector<at::Tensor> trained(const c10::Device& device) {
  at::set_num_threads(1);
  const Net net(device);
  torch::optim::SGD sgd(net.parameters(), torch::optim::SGDOptions(0.1).momentum(0.9).weight_decay(1e-3));
  for (int step = 0; step < kSteps; ++step) {
    sgd.zero_grad();
    net.loss(static_cast<std::uint64_t>(step)).backward();
    sgd.step();
  }
  return net.values();
}

void expect_equal(const std::vector<at::Tensor>& found, const std::vector<at::Tensor>& wanted) {
  ASSERT_EQ(found.size(), wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_TRUE(found[i].equal(wanted[i])) << "tensor " << i;
}

c10::Event event_in(const c10::Stream& stream) {
  c10::Event event(stream.device_type());
  event.record(stream);
  return event;
}

TEST(TorchDevice, TrainsToTheBitsOfTheCpu) {
  const auto wanted = trained(c10::kCPU);
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SimulatedDevice device({.seed = seed, .polls_order = seed % 2 == 0});
    TorchDevice torch_device(device);
    {
      const c10::OptionalStreamGuard side(seed % 3 == 0 ? std::optional(torch_device.make_stream(0)) : std::nullopt);
      expect_equal(trained(TorchDevice::at(0)), wanted);
    }
    EXPECT_GT(torch_device.reused(), 0);
  }
}

TEST(TorchDevice, TrainsOnAsManyDevicesAsThereAreThreads) {
  const auto wanted = trained(c10::kCPU);
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    SimulatedDevice device({.devices = 3, .seed = seed});
    TorchDevice torch_device(device);
    std::vector<std::thread> ranks;
    for (int rank = 0; rank < 3; ++rank) {
      ranks.emplace_back([&, rank] { expect_equal(trained(TorchDevice::at(rank)), wanted); });
    }
    for (auto& rank : ranks) rank.join();
  }
}

TEST(TorchDevice, CopiesWhateverHasAForm) {
  SimulatedDevice device;
  TorchDevice torch_device(device);
  const at::Tensor host = at::arange(24).view({4, 6});
  const at::Tensor there = host.to(TorchDevice::at(0));
  EXPECT_TRUE(there.t().cpu().equal(host.t()));
  EXPECT_TRUE(there.slice(1, 1, 5, 2).to(at::kDouble).cpu().equal(host.slice(1, 1, 5, 2).to(at::kDouble)));
  EXPECT_TRUE(there.select(0, 2).clone().cpu().equal(host.select(0, 2)));
  EXPECT_EQ(there.sum().item<std::int64_t>(), 276);
  EXPECT_EQ(there.narrow(0, 4, 0).cpu().numel(), 0);
}

TEST(TorchDevice, RunsNothingBeforeItsStreamComesToIt) {
  SimulatedDevice device;
  TorchDevice torch_device(device);
  const at::Tensor x = at::zeros({8}, TorchDevice::at(0));
  x.add_(1);
  EXPECT_GT(device.queued(), 0U);
  EXPECT_EQ(x.sum().item<float>(), 8);
}

// x is made in one stream and read in another.
std::vector<Violation> read_elsewhere(std::uint64_t seed, bool wait) {
  SimulatedDevice device({.seed = seed});
  TorchDevice torch_device(device);
  const c10::Stream other = torch_device.make_stream(0);
  const at::Tensor x = at::full({8}, 3, TorchDevice::at(0));
  if (wait) event_in(c10::Stream(c10::Stream::DEFAULT, TorchDevice::at(0))).block(other);
  {
    const c10::StreamGuard guard(other);
    const at::Tensor y = x * 2;
    device.drain();
    if (wait) {
      EXPECT_EQ(y.sum().item<float>(), 48);
    }
  }
  return device.take_violations();
}

TEST(TorchDevice, FindsAMissingWaitWhateverTheOrder) {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    EXPECT_THAT(read_elsewhere(seed, true), testing::IsEmpty()) << seed;
    EXPECT_THAT(read_elsewhere(seed, false), testing::Contains(testing::Field(&Violation::fault, Fault::race))) << seed;
  }
}

enum class Recorded { yes, no, ignored };

// x goes while another stream, which waited for it, may still read it.
std::vector<Violation> free_early(std::uint64_t seed, Recorded recorded) {
  SimulatedDevice device({.seed = seed});
  TorchDevice torch_device(device);
  if (recorded == Recorded::ignored) torch_device.ignore_records();
  const c10::Stream other = torch_device.make_stream(0);
  {
    const at::Tensor x = at::full({8}, 3, TorchDevice::at(0));
    event_in(c10::Stream(c10::Stream::DEFAULT, TorchDevice::at(0))).block(other);
    const c10::StreamGuard guard(other);
    const at::Tensor y = x * 2;
    if (recorded != Recorded::no) x.record_stream(other);
  }
  device.drain();
  return device.take_violations();
}

TEST(TorchDevice, FindsMemoryThatWasNotRecordedWhateverTheOrder) {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    EXPECT_THAT(free_early(seed, Recorded::yes), testing::IsEmpty()) << seed;
    for (const Recorded how : {Recorded::no, Recorded::ignored}) {
      EXPECT_THAT(free_early(seed, how), testing::Contains(testing::Field(&Violation::fault, Fault::race))) << seed;
    }
  }
}

TEST(TorchDevice, GivesMemoryToItsStreamAtOnceAndToNobodyBeforeItsUsersHavePassed) {
  SimulatedDevice device;
  TorchDevice torch_device(device);
  const auto options = at::TensorOptions(TorchDevice::at(0));
  const c10::Stream other = torch_device.make_stream(0);
  at::Tensor x = at::empty({8}, options);
  const void* const memory = x.const_data_ptr();
  x.reset();
  x = at::empty({8}, options);
  EXPECT_EQ(x.const_data_ptr(), memory);
  {
    const c10::StreamGuard guard(other);
    const at::Tensor y = at::empty({8}, options);
    EXPECT_NE(y.const_data_ptr(), memory);
  }
  std::atomic<bool> open = false;
  Operation gate{.what = "gate", .ready = [&] { return open.load(); }};
  device.enqueue(other.native_handle(), std::move(gate));
  x.record_stream(other);
  x.reset();
  x = at::empty({8}, options);
  EXPECT_NE(x.const_data_ptr(), memory);
  open = true;
  device.drain();
  const at::Tensor y = at::empty({8}, options);
  EXPECT_EQ(y.const_data_ptr(), memory);
}

TEST(TorchDevice, OrdersBackwardBehindForwardInItsStream) {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SimulatedDevice device({.seed = seed});
    TorchDevice torch_device(device);
    const c10::Stream side = torch_device.make_stream(0);
    const Net net(TorchDevice::at(0));
    event_in(c10::Stream(c10::Stream::DEFAULT, TorchDevice::at(0))).block(side);
    at::Tensor loss;
    {
      const c10::StreamGuard guard(side);
      loss = net.loss(1);
    }
    loss.backward();  // autograd makes this thread's stream wait for what it did in the other
    const Net alone(c10::kCPU);
    alone.loss(1).backward();
    for (std::size_t i = 0; i < 4; ++i) {
      EXPECT_TRUE(net.parameters()[i].grad().cpu().equal(alone.parameters()[i].grad())) << "seed " << seed;
    }
  }
}

TEST(TorchDevice, SaysWhatItDoesNotDo) {
  SimulatedDevice device({.devices = 2});
  TorchDevice torch_device(device);
  const at::Tensor x = at::zeros({8}, TorchDevice::at(0));
  EXPECT_THROW(x.nonzero(), c10::Error);
  EXPECT_THROW(x.uniform_(), c10::Error);
  EXPECT_THROW(x.to(TorchDevice::at(1)), c10::Error);
  EXPECT_THROW(at::zeros({8}, TorchDevice::at(2)), c10::Error);
  EXPECT_THROW(x + at::zeros({7}, TorchDevice::at(0)), c10::Error);
}

}  // namespace
}  // namespace kolo::test
