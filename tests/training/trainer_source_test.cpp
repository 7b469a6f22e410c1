// From decoder to a network's input on a simulated device: the loader's bytes, their copy, and the launch.
#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <optional>

#include "data.h"
#include "multirank/torch_device/trainee.h"

namespace imagenet {
namespace {

using kolo::Context;
using kolo::test::DeviceWorld;
using kolo::test::TorchDevice;
using kolo::test::Trainee;

constexpr int kBatches = 5;

Options few_images(DataKind kind, bool channels_last) {
  Options options;
  options.data_kind = kind;
  options.synthetic_images = kBatches * 4;
  options.classes = 5;
  options.batch = 4;
  options.image_size = 18;
  options.workers = 1;
  options.channels_last = channels_last;
  return options;
}

DatasetPtr dataset_of(const Options& options) {
  return std::make_shared<kolo::data::SyntheticJpegs>(
      kolo::data::SyntheticJpegOptions{.size = options.synthetic_images, .classes = options.classes});
}

// Bytes of a decoder are rounded, and nothing else differs.
double tolerance(DataKind kind) { return kind == DataKind::synthetic_jpeg ? 0.5005 / 255 / 0.224 : 0; }

void expect_the_hosts_images(Context& context, const Options& options) {
  const c10::Device device = TorchDevice::at(0);
  const auto there = make_source(context, options, Part::train, device, dataset_of(options));
  const auto here = make_source(context, options, Part::train, at::kCPU, dataset_of(options));
  there->begin(0, 0);
  here->begin(0, 0);
  Batch found, wanted;
  int batches = 0;
  for (; there->next(found); ++batches) {
    ASSERT_TRUE(here->next(wanted));
    ASSERT_EQ(found.images.device(), device);
    EXPECT_EQ(found.images.scalar_type(), at::kFloat);
    EXPECT_TRUE(found.images.is_contiguous(options.channels_last ? at::MemoryFormat::ChannelsLast
                                                                 : at::MemoryFormat::Contiguous));
    const at::Tensor difference = found.images.cpu().sub(wanted.images).abs().max();
    EXPECT_LE(difference.item<double>(), tolerance(options.data_kind)) << "batch " << batches;
    EXPECT_TRUE(found.labels.cpu().equal(wanted.labels));
  }
  EXPECT_EQ(batches, kBatches);
}

// How often kolo's kernel was launched.
int launches_for(const Options& options, bool with_optimizer) {
  DeviceWorld world({.hosts = kolo::test::one_host(1), .seed = 7});
  run_on_devices(world, [&](kolo::test::Place& place) {
    std::optional<Trainee> trainee;
    if (with_optimizer) trainee.emplace(place);
    expect_the_hosts_images(place.context, options);
  });
  return world.device().launches("kolo_images");
}

TEST(BatchSource, ImagesOnDeviceEqualImagesOnCpu) {
  for (const DataKind kind : {DataKind::synthetic_host, DataKind::synthetic_jpeg}) {
    for (const bool channels_last : {true, false}) {
      const Options options = few_images(kind, channels_last);
      EXPECT_EQ(launches_for(options, true), kBatches);
      EXPECT_EQ(launches_for(options, false), 0) << "by LibTorch's operations";
    }
  }
}

// For a GPU the loader yields bytes, always in channels_last; the GPU normalises them.
TEST(LoaderSource, ForDeviceYieldsBytes) {
  for (const bool channels_last : {true, false}) {
    const Options options = few_images(DataKind::synthetic_jpeg, channels_last);
    const auto on_host = make_loader_source(dataset_of(options), options, {}, Part::train, at::kCPU);
    const auto for_device = make_loader_source(dataset_of(options), options, {}, Part::train, TorchDevice::at(0));
    on_host->begin(0, 0);
    for_device->begin(0, 0);
    Batch floats, bytes;
    ASSERT_TRUE(on_host->next(floats));
    ASSERT_TRUE(for_device->next(bytes));
    EXPECT_EQ(floats.images.scalar_type(), at::kFloat);
    EXPECT_EQ(bytes.images.scalar_type(), at::kByte);
    EXPECT_TRUE(bytes.images.is_contiguous(at::MemoryFormat::ChannelsLast));
    EXPECT_EQ(bytes.images.sizes(), floats.images.sizes());
    EXPECT_TRUE(bytes.labels.equal(floats.labels));
    const at::Tensor mean = at::tensor({0.485F, 0.456F, 0.406F}).view({3, 1, 1});
    const at::Tensor deviation = at::tensor({0.229F, 0.224F, 0.225F}).view({3, 1, 1});
    const at::Tensor grey = floats.images.mul(deviation).add(mean).mul(255);
    EXPECT_LE(bytes.images.to(at::kFloat).sub(grey).abs().max().item<float>(), 0.5005F);
  }
}

}  // namespace
}  // namespace imagenet
