// The trainer's use of a device, on a simulated one, which finds each missing wait and each use of memory after its
// release, in all schedules.
#include <ATen/Functions.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/optim/sgd.h>

#include <atomic>

#include "checkpoints.h"
#include "data.h"
#include "kolo/torch/fused_optimizers.h"
#include "kolo/torch/grad_scaler.h"
#include "model.h"
#include "support/device/simulated_device.h"
#include "support/temporary_folder.h"
#include "support/torch_device/torch_device.h"

namespace imagenet {
namespace {

using kolo::test::DeviceOptions;
using kolo::test::SimulatedDevice;
using kolo::test::TemporaryFolder;
using kolo::test::TorchDevice;

constexpr std::int64_t kBatches = 6;

// Bytes that depend on the epoch, the batch and the place, in two buffers that are reused like a loader's.
class FewBatches : public BatchSource {
 public:
  [[nodiscard]] int classes() const override { return 9; }
  [[nodiscard]] std::int64_t steps() const override { return kBatches; }
  void begin(std::int64_t epoch, std::int64_t first, std::int64_t /*done*/) override {
    epoch_ = epoch;
    next_ = first;
  }
  bool next(Batch& batch) override {
    if (next_ == kBatches) return false;
    Batch& buffer = buffers_[static_cast<std::size_t>(next_) % 2];
    if (!buffer.images.defined()) buffer = content(0, 0);
    const Batch fresh = content(epoch_, next_++);
    buffer.images.copy_(fresh.images);
    buffer.labels.copy_(fresh.labels);
    batch = buffer;
    return true;
  }
  static Batch content(std::int64_t epoch, std::int64_t number) {
    const at::Tensor places = at::arange(2 * 4 * 4 * 3).add(50 * epoch + 7 * number).remainder(256);
    return {places.to(at::kByte).view({2, 4, 4, 3}).permute({0, 3, 1, 2}), at::full({2}, number, at::kLong)};
  }

 private:
  std::int64_t epoch_ = 0, next_ = 0;
  Batch buffers_[2];
};

// Stands in for the normalisation, which has tests of its own.
Normalize halved(at::MemoryFormat format) {
  return [format](const at::Tensor& bytes) { return bytes.to(at::kFloat).div_(2).contiguous(format); };
}

at::Tensor expected_images(std::int64_t epoch, std::int64_t number) {
  return halved(at::MemoryFormat::ChannelsLast)(FewBatches::content(epoch, number).images);
}

struct World {
  explicit World(std::uint64_t seed) : device({.devices = 1, .seed = seed, .polls_order = false}) {}
  SimulatedDevice device;
  TorchDevice torch{device};
  const c10::Device place = TorchDevice::at(0);
};

// Keeps the compute stream busy during its lifetime: a wait for the stream would never end.
class BusyDevice {
 public:
  explicit BusyDevice(SimulatedDevice& device) : device_(device) {
    device_.enqueue(nullptr, {.what = "a long step", .ready = [done = done_] { return done->load(); }});
  }
  ~BusyDevice() { finish(); }
  void finish() {
    const auto lock = device_.lock();
    done_->store(true);
    device_.changed();
  }

 private:
  SimulatedDevice& device_;
  std::shared_ptr<std::atomic<bool>> done_ = std::make_shared<std::atomic<bool>>(false);
};

struct Seen {
  std::vector<at::Tensor> images, labels;
};

// A pass over the source, with a computation on each batch, that never waits.
Seen compute_on(BatchSource& source, std::int64_t epoch, std::int64_t first) {
  Seen seen;
  source.begin(epoch, first);
  for (Batch batch; source.next(batch);) {
    seen.images.push_back(batch.images.clone());
    seen.labels.push_back(batch.labels.clone());
  }
  return seen;
}

TEST(DeviceSource, BatchesAreCompleteAndCpuDoesNotWait) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    World world(seed);
    const auto source =
        make_device_source(std::make_unique<FewBatches>(), world.place, halved(at::MemoryFormat::ChannelsLast));
    for (const auto& [epoch, first] : {std::pair<std::int64_t, std::int64_t>{0, 0}, {1, 4}}) {
      BusyDevice busy(world.device);
      const Seen seen = compute_on(*source, epoch, first);
      busy.finish();
      ASSERT_EQ(seen.images.size(), static_cast<std::size_t>(kBatches - first));
      for (std::size_t i = 0; i < seen.images.size(); ++i) {
        const auto number = first + static_cast<std::int64_t>(i);
        const at::Tensor images = seen.images[i].cpu();
        EXPECT_TRUE(images.equal(expected_images(epoch, number))) << "seed " << seed << ", batch " << number;
        EXPECT_TRUE(images.is_contiguous(at::MemoryFormat::ChannelsLast));
        EXPECT_EQ(seen.labels[i].cpu()[1].item<std::int64_t>(), number) << "seed " << seed;
      }
    }
  }
}

// The memory of a batch goes back to the stream of the copies: without a record of its use the next copy takes it.
TEST(DeviceSource, MemoryIsReusedTooEarlyIfUsesAreNotRecorded) {
  std::size_t found = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    World world(seed);
    world.torch.ignore_records();
    const auto source =
        make_device_source(std::make_unique<FewBatches>(), world.place, halved(at::MemoryFormat::ChannelsLast));
    (void)compute_on(*source, 0, 0);
    world.device.drain();
    found += world.device.take_violations().size();
  }
  EXPECT_GT(found, 0U);
}

TEST(DeviceSource, BeginDropsBatchesOfUnfinishedEpoch) {
  World world(3);
  const auto source =
      make_device_source(std::make_unique<FewBatches>(), world.place, halved(at::MemoryFormat::Contiguous));
  source->begin(0, 0, 0);
  Batch batch;
  ASSERT_TRUE(source->next(batch));
  const Seen seen = compute_on(*source, 2, 5);
  ASSERT_EQ(seen.images.size(), 1U);
  EXPECT_TRUE(seen.images[0].cpu().equal(expected_images(2, 5)));
  EXPECT_TRUE(seen.images[0].cpu().is_contiguous());
}

TEST(Totals, AddDoesNotWaitForDevice) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    World world(seed);
    Totals totals(world.place, 2), on_host(at::kCPU, 2);
    {
      BusyDevice busy(world.device);
      for (int i = 1; i <= 5; ++i) {
        const at::Tensor value = at::full({}, 0.25 * i, at::kFloat);
        totals.add(0, value.to(world.place), i);
        totals.add(1, at::full({}, i, at::kLong).to(world.place));
        totals.add(1, 100.0);
        on_host.add(0, value, i);
        on_host.add(1, 100.0 + i);
      }
    }
    EXPECT_EQ(totals.read(), on_host.read()) << "seed " << seed;
  }
}

TEST(GradScaler, OnDeviceSkipsOverflowAndHalvesScale) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    World world(seed);
    const at::Tensor weight = at::ones({3}).to(world.place).set_requires_grad(true);
    kolo::FusedSGD sgd({weight}, torch::optim::SGDOptions(0.25));
    kolo::GradScaler scaler(kolo::GradScalerOptions{.init_scale = 8});
    for (const bool overflow : {false, true, false}) {
      sgd.zero_grad();
      scaler.scale((weight * (overflow ? INFINITY : 1.0)).sum()).backward();
      scaler.unscale_(sgd);
      EXPECT_EQ(scaler.step(sgd), !overflow) << "seed " << seed;
      scaler.update();
    }
    EXPECT_EQ(weight.detach().cpu()[0].item<double>(), 0.5);
    EXPECT_EQ(scaler.state().scale, 4);
  }
}

// --- checkpoints --------------------------------------------------------------------------------------------------

// Where the parameters are from the beginning: LibTorch moves no module to a backend of ours.
struct Model : torch::nn::Module {
  explicit Model(const c10::Device& place) {
    const auto here = [&](const at::Tensor& tensor) { return tensor.to(place); };
    register_parameter("conv", here(at::zeros({4, 3, 3, 3}).contiguous(at::MemoryFormat::ChannelsLast)));
    register_parameter("bias", here(at::zeros({5})));
    register_buffer("running_mean", here(at::zeros({4})));
    register_buffer("batches", here(at::zeros({}, at::kLong)));
  }
};

at::Tensor momentum_of(torch::optim::Optimizer& optimizer, const at::Tensor& parameter) {
  return static_cast<torch::optim::SGDParamState&>(*optimizer.state().at(parameter.unsafeGetTensorImpl()))
      .momentum_buffer();
}

// Numbers that depend on the tensor, the place in it and the run.
struct Training {
  Training(const Options& options, const c10::Device& place, double first)
      : model(place), optimizer(make_optimizer(options, model)) {
    const at::NoGradGuard no_grad;
    const auto numbers = [&](const at::Tensor& like) {
      first += 1000;
      return at::arange(like.numel()).add(first).view(like.sizes()).to(like.scalar_type());
    };
    for (const auto& [name, tensor] : state_of(model)) tensor.detach().copy_(numbers(tensor));
    for (const auto& parameter : model.parameters()) {
      auto momentum = std::make_unique<torch::optim::SGDParamState>();
      momentum->momentum_buffer(at::empty_like(parameter).copy_(numbers(parameter)));
      optimizer->state()[parameter.unsafeGetTensorImpl()] = std::move(momentum);
    }
  }
  Model model;
  std::shared_ptr<torch::optim::Optimizer> optimizer;
};

void expect_equal(const Training& one, const Training& other) {
  const auto left = state_of(one.model), right = state_of(other.model);
  ASSERT_EQ(left.size(), right.size());
  for (std::size_t i = 0; i < left.size(); ++i) {
    EXPECT_TRUE(left[i].second.detach().cpu().equal(right[i].second.detach().cpu())) << left[i].first;
  }
  const auto mine = one.model.parameters(), theirs = other.model.parameters();
  for (std::size_t i = 0; i < mine.size(); ++i) {
    EXPECT_TRUE(momentum_of(*one.optimizer, mine[i]).cpu().equal(momentum_of(*other.optimizer, theirs[i]).cpu()));
  }
}

TEST(Checkpoint, OfCpuOrDeviceLoadsOnBoth) {
  World world(5);
  const TemporaryFolder folder;
  Options options;
  options.checkpoint_dir = options.resume = folder.path();
  const auto context = std::move(kolo::Context::create_local(1).front());
  std::string notice;
  const auto directory = prepare_checkpoint_dir(*context, options, notice);
  const c10::Device places[] = {at::kCPU, world.place};
  double value = 0;
  for (const auto& from : places) {
    for (const auto& to : places) {
      Training written(options, from, value += 1e6);
      Position position;
      position.step = static_cast<std::int64_t>(value);
      position.scaler = kolo::GradScaler::State{1.0 / 3, 77};
      const kolo::checkpoint::Metadata none;
      save_checkpoint(*context, directory.get(), {options, none, written.model, *written.optimizer}, position);
      Training read(options, to, -1);
      const Position found = load_checkpoint(*context, {options, none, read.model, *read.optimizer});
      expect_equal(read, written);
      EXPECT_EQ(read.model.parameters()[0].device(), to);
      EXPECT_TRUE(read.model.parameters()[0].is_contiguous(at::MemoryFormat::ChannelsLast));
      EXPECT_EQ(found.step, position.step);
      ASSERT_TRUE(found.scaler.has_value());
      EXPECT_EQ(found.scaler->scale, 1.0 / 3);
      EXPECT_EQ(found.scaler->good_steps, 77);
    }
  }
}

}  // namespace
}  // namespace imagenet
