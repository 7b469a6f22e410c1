// Kolo's kernels on ResNet-50's gradients, against the rate at which this device copies memory and against what torch
// has for the same: gpu_kernels [ROUNDS]. JSON lines on stdout; results are compared with torch's before anything is
// timed.
#include <ATen/Functions.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <cstdlib>
#include <limits>
#include <numeric>
#include <stdexcept>

#include "cuda/kernel.h"
#include "cuda/runtime.h"
#include "gpu_clock.h"
#include "kernels/adamw.h"
#include "kernels/device_image.h"
#include "kernels/find_nonfinite.h"
#include "kernels/images.h"
#include "kernels/pack.h"
#include "kernels/scale.h"
#include "kernels/sgd.h"
#include "kolo/context.h"
#include "kolo/torch/cuda.h"
#include "resnet50_gradients.h"

namespace kolo::bench {
namespace {

constexpr std::int64_t kAligned = 16;  // elements: where a tensor begins in its bucket
constexpr double kLr = 0.1, kMomentum = 0.9, kDecay = 1e-4;
constexpr double kAdamLr = 1e-3, kBeta1 = 0.9, kBeta2 = 0.999, kEpsilon = 1e-8;

std::vector<void*> addresses_of(const std::vector<at::Tensor>& tensors) {
  std::vector<void*> addresses;
  for (const at::Tensor& tensor : tensors) addresses.push_back(tensor.mutable_data_ptr());
  return addresses;
}

double total(const std::vector<std::int64_t>& elements) {
  return static_cast<double>(std::accumulate(elements.begin(), elements.end(), std::int64_t{0}));
}

// Tensors of ResNet-50's sizes, each in memory of its own, and one bucket for all of them.
class Gradients50 {
 public:
  Gradients50(const c10::Device& device, at::ScalarType bucket_type)
      : options_(at::TensorOptions().device(device).dtype(at::kFloat)) {
    for (const std::int64_t count : elements) {
      places.push_back({static_cast<std::size_t>(end), static_cast<std::size_t>(count)});
      end += (count + kAligned - 1) / kAligned * kAligned;
      tensors.push_back(at::rand({count}, options_));
    }
    bucket = at::zeros({end}, options_.dtype(bucket_type));
    for (const auto& place : places) {
      views.push_back(
          bucket.narrow(0, static_cast<std::int64_t>(place.offset), static_cast<std::int64_t>(place.count)));
    }
  }
  [[nodiscard]] std::vector<at::Tensor> like() const {
    std::vector<at::Tensor> others;
    for (const std::int64_t count : elements) others.push_back(at::zeros({count}, options_));
    return others;
  }

  const std::vector<std::int64_t> elements = resnet50_elements();
  std::int64_t end = 0;
  std::vector<kernels::TensorPlace> places;
  std::vector<at::Tensor> tensors;
  at::Tensor bucket;
  std::vector<at::Tensor> views;  // of the bucket, one a tensor

 private:
  at::TensorOptions options_;
};

void expect_equal(const std::vector<at::Tensor>& got, const std::vector<at::Tensor>& wanted, double tolerance,
                  const std::string& what) {
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (at::allclose(got[i].to(at::kFloat), wanted[i].to(at::kFloat), tolerance, tolerance)) continue;
    throw std::runtime_error(what + ": tensor " + std::to_string(i) + " is not what torch makes of it");
  }
}

// A bucket of gradients, the weights and what an optimizer remembers, for kolo and for torch, each with its own.
struct Training {
  Training(const c10::Device& device, unsigned memories) : gradients(device, at::kFloat) {
    at::_foreach_copy_(gradients.views, gradients.tensors);
    for (auto* model : {&ours, &theirs}) {
      for (unsigned i = 0; i <= memories; ++i) model->push_back(gradients.like());
    }
  }
  // Columns of kolo's table: the gradients where they lie in the bucket, then the weights and the rest.
  [[nodiscard]] std::vector<void*> addresses() const {
    std::vector<void*> all = addresses_of(gradients.views);
    for (const auto& tensors : ours) {
      const std::vector<void*> more = addresses_of(tensors);
      all.insert(all.end(), more.begin(), more.end());
    }
    return all;
  }
  Gradients50 gradients;
  std::vector<std::vector<at::Tensor>> ours, theirs;  // weights first
};

// Everything that is measured, with what it works on.
class Bench {
 public:
  Bench(const c10::Device& device, const c10::Stream& stream)
      : stream_{stream.native_handle(), device.index()},
        runtime_(cuda::load_runtime()),
        image_(runtime_, kernels::device_image()),
        options_(at::TensorOptions().device(device)) {
    add_copies();
    add_packing(device, at::kFloat, DType::f32, "f32");
    add_packing(device, at::kBFloat16, DType::bf16, "bf16");
    add_packing(device, at::kHalf, DType::f16, "f16");
    add_scaling(at::kFloat, DType::f32, "f32");
    add_scaling(at::kBFloat16, DType::bf16, "bf16");
    add_search(device);
    add_sgd(device);
    add_adamw(device);
    add_images();
  }
  [[nodiscard]] const std::vector<Way>& ways() const { return ways_; }

 private:
  void add(std::string what, std::string way, double bytes, std::function<void()> body, std::function<void()> renew) {
    ways_.push_back({std::move(what), std::move(way), bytes, std::move(body), std::move(renew)});
  }

  // As many bytes as the gradients are: what the others are held to. And a larger one, for the device's full rate.
  void add_copies() {
    for (const std::int64_t elements : {static_cast<std::int64_t>(total(resnet50_elements())), std::int64_t{1} << 28}) {
      const at::Tensor from = at::rand({elements}, options_), to = at::empty({elements}, options_);
      add(
          elements == std::int64_t{1} << 28 ? "copy of 1 GiB" : "copy", "device to device",
          8 * static_cast<double>(elements), [=] { to.copy_(from); }, [=] { from.add_(1); });
    }
  }

  void add_packing(const c10::Device& device, at::ScalarType type, DType bucket_type, const std::string& name) {
    const auto set = std::make_shared<Gradients50>(device, type);
    // A table each, as each keeps the addresses of its last launch.
    const auto out = std::make_shared<kernels::TensorTable>(runtime_, device.index(), set->places);
    const auto in = std::make_shared<kernels::TensorTable>(runtime_, device.index(), set->places);
    const kernels::Transfer transfer{set->bucket.mutable_data_ptr(), DType::f32, bucket_type, 1.0};
    const auto pack = [=, this] { kernels::pack(image_, *out, addresses_of(set->tensors), transfer, stream_); };
    const auto back = std::make_shared<std::vector<at::Tensor>>(set->like());
    const auto unpack = [=, this] { kernels::unpack(image_, *in, addresses_of(*back), transfer, stream_); };
    pack();
    std::vector<at::Tensor> cast;
    for (const at::Tensor& tensor : set->tensors) cast.push_back(tensor.to(type));
    expect_equal(set->views, cast, 0, "pack " + name);
    unpack();
    expect_equal(*back, cast, 0, "unpack " + name);

    const double bytes = total(set->elements) * (4 + static_cast<double>(size_of(bucket_type)));
    const auto renew_tensors = [=] { at::_foreach_add_(set->tensors, 1); };
    const auto renew_bucket = [=] { set->bucket.add_(1); };
    add("pack " + name, "kolo", bytes, pack, renew_tensors);
    add(
        "pack " + name, "foreach_copy", bytes, [=] { at::_foreach_copy_(set->views, set->tensors); }, renew_tensors);
    add(
        "pack " + name, "one by one", bytes,
        [=] {
          for (std::size_t i = 0; i < set->views.size(); ++i) set->views[i].copy_(set->tensors[i]);
        },
        renew_tensors);
    add("unpack " + name, "kolo", bytes, unpack, renew_bucket);
    add(
        "unpack " + name, "foreach_copy", bytes, [=] { at::_foreach_copy_(*back, set->views); }, renew_bucket);
  }

  // An average after a sum, of as many elements as the gradients are: each is read and written.
  void add_scaling(at::ScalarType type, DType kolo_type, const std::string& name) {
    const auto count = static_cast<std::int64_t>(total(resnet50_elements()));
    const at::Tensor data = at::rand({count}, options_.dtype(type)), expected = data.mul(0.5);
    const auto in_kolo = [=, this](double factor) {
      kernels::scale(image_, {data.mutable_data_ptr(), static_cast<std::size_t>(count), kolo_type, factor}, stream_);
    };
    in_kolo(0.5);
    expect_equal({data}, {expected}, 0, "scale " + name);
    const double bytes = 2 * static_cast<double>(size_of(kolo_type)) * static_cast<double>(count);
    const auto renew = [=] { data.fill_(1); };
    add(
        "scale " + name, "kolo", bytes, [=] { in_kolo(0.5); }, renew);
    add(
        "scale " + name, "torch's mul_", bytes, [=] { data.mul_(0.5); }, renew);
  }

  // A GradScaler's look at the gradients. Torch's own look multiplies them as well, and so writes them.
  void add_search(const c10::Device& device) {
    const auto set = std::make_shared<Gradients50>(device, at::kFloat);
    const auto table = std::make_shared<kernels::TensorTable>(runtime_, device.index(), set->places);
    const at::Tensor flag = at::zeros({1}, options_), one = at::ones({1}, options_);
    const auto in_kolo = [=, this] {
      kernels::find_nonfinite({image_, *table, addresses_of(set->tensors), 1, stream_}, flag.mutable_data_ptr<float>());
    };
    const auto in_torch = [=] {
      at::Tensor found = flag;
      at::_amp_foreach_non_finite_check_and_unscale_(set->tensors, found, one);
    };
    in_kolo();
    if (flag.item<float>() != 0) throw std::runtime_error("find_nonfinite: found what is not there");
    at::Tensor& last = set->tensors.back();
    last.view({-1})[last.numel() - 1].fill_(std::numeric_limits<double>::infinity());
    in_kolo();
    if (flag.item<float>() != 1) throw std::runtime_error("find_nonfinite: did not find what is there");
    last.fill_(1);
    flag.zero_();
    const double elements = total(set->elements);
    const auto renew = [=] { at::_foreach_neg_(set->tensors); };
    add("find_nonfinite", "kolo", 4 * elements, in_kolo, renew);
    add("find_nonfinite", "torch's check and unscale", 8 * elements, in_torch, renew);
  }

  // As FusedSGD has it on a device: 20 bytes an element, for both.
  void add_sgd(const c10::Device& device) {
    const auto set = std::make_shared<Training>(device, 1);
    const auto table = table_of(*set);
    const auto kolo_step = [=, this] {
      kernels::update_sgd({image_, *table, set->addresses(), 1, stream_}, {kLr, kMomentum, 0, kDecay, false, false});
    };
    const auto torch_step = [=] {
      at::_fused_sgd_(set->theirs[0], set->gradients.views, set->theirs[1], kDecay, kMomentum, kLr, 0, false, false,
                      false);
    };
    add_update("sgd", 20, set, kolo_step, torch_step);
  }

  // As FusedAdamW has it: 28 bytes an element.
  void add_adamw(const c10::Device& device) {
    const auto set = std::make_shared<Training>(device, 2);
    const auto table = table_of(*set);
    // As if each step were the first: counting is no part of what is compared.
    const auto kolo_step = [=, this] {
      kernels::update_adamw({image_, *table, set->addresses(), 1, stream_},
                            {kAdamLr, kBeta1, kBeta2, kEpsilon, kDecay, 1});
    };
    const std::vector<at::Tensor> steps(set->theirs[0].size(), at::ones({}, options_.dtype(at::kFloat)));
    const auto torch_step = [=] {
      at::_fused_adamw_(set->theirs[0], set->gradients.views, set->theirs[1], set->theirs[2], {}, steps, kAdamLr,
                        kBeta1, kBeta2, kDecay, kEpsilon, false, false);
    };
    add_update("adamw", 28, set, kolo_step, torch_step);
  }

  [[nodiscard]] std::shared_ptr<kernels::TensorTable> table_of(const Training& set) {
    const kernels::TableShape shape{.columns = set.ours.size() + 1};
    return std::make_shared<kernels::TensorTable>(runtime_, stream_.device, set.gradients.places, shape);
  }

  void add_update(const std::string& what, double bytes_of_an_element, const std::shared_ptr<Training>& set,
                  const std::function<void()>& kolo_step, const std::function<void()>& torch_step) {
    for (int step = 0; step < 3; ++step) {
      kolo_step();
      torch_step();
    }
    expect_equal(set->ours[0], set->theirs[0], 1e-5, what);
    const double bytes = bytes_of_an_element * total(set->gradients.elements);
    const auto renew = [=] { set->gradients.bucket.mul_(-1); };
    add(what, "kolo", bytes, kolo_step, renew);
    add(what, "torch's fused", bytes, torch_step, renew);
  }

  // A batch of bytes into a network's input.
  void add_images() {
    const std::int64_t count = 256, side = 224;
    struct Pictures {
      at::Tensor pixels, flips, out, mean, deviation;
    };
    const auto set = std::make_shared<Pictures>();
    set->pixels = at::randint(256, {count, side, side, 3}, options_.dtype(at::kByte));
    set->flips = at::randint(2, {count}, options_.dtype(at::kByte));
    set->out = at::empty({count, side, side, 3}, options_.dtype(at::kBFloat16));
    set->mean = at::tensor(at::ArrayRef<float>(kImageNetMean)).to(options_.device());
    set->deviation = at::tensor(at::ArrayRef<float>(kImageNetDeviation)).to(options_.device());
    const auto in_kolo = [=, this] {
      ImageBatch batch;
      batch.pixels = set->pixels.const_data_ptr<std::uint8_t>();
      batch.flips = set->flips.const_data_ptr<std::uint8_t>();
      batch.out = set->out.mutable_data_ptr();
      batch.images = static_cast<std::size_t>(count);
      batch.height = batch.width = static_cast<std::size_t>(side);
      batch.dtype = DType::bf16;
      batch.mean = kImageNetMean;
      batch.deviation = kImageNetDeviation;
      kernels::normalize_images(image_, batch, stream_);
    };
    const auto in_torch = [=] {
      set->out.copy_(set->pixels.to(at::kFloat).div_(255).sub_(set->mean).div_(set->deviation));
    };
    const double bytes = 3 * static_cast<double>(set->pixels.numel());
    const auto renew = [=] { set->pixels.bitwise_not_(); };
    add("images", "kolo, with flips", bytes, in_kolo, renew);
    add("images", "torch, without", bytes, in_torch, renew);
  }

  Stream stream_;
  cuda::RuntimePtr runtime_;
  cuda::KernelImage image_;
  at::TensorOptions options_;
  std::vector<Way> ways_;
};

void run(int rounds) {
  const auto context = Context::create();
  const c10::Device device = use_cuda(*context);
  const c10::Stream stream = c10::impl::VirtualGuardImpl(device.type()).getNewStream(device);
  const c10::StreamGuard guard(stream);
  const Bench bench(device, stream);
  const std::vector<Timing> timings = time_in_turns(bench.ways(), stream, rounds);
  print_timings(bench.ways(), timings, bench.ways().front().bytes / timings.front().median / 1000);
}

}  // namespace
}  // namespace kolo::bench

int main(int argc, char** argv) {
  try {
    kolo::bench::run(argc > 1 ? std::atoi(argv[1]) : 100);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gpu_kernels: %s\n", error.what());
    return 1;
  }
}
