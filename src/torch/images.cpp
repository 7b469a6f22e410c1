#include "kolo/torch/images.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>
#include <c10/core/GradMode.h>

#include <sstream>

#include "kolo/engine.h"
#include "kolo/error.h"
#include "kolo/images.h"
#include "torch/dtype.h"
#include "torch/torch_device.h"

namespace kolo {
namespace {

constexpr float kByteRange = 255.0F;

void require(bool holds, const char* what, const at::Tensor& found) {
  if (holds) return;
  std::ostringstream text;
  text << "normalize_images: " << what << ", not " << found.scalar_type() << ' ' << found.sizes() << " on "
       << found.device();
  throw UsageError(text.str());
}

void check(const at::Tensor& bytes, const NormalizeOptions& options, const at::Tensor& flips) {
  if (!bytes.defined()) throw UsageError("normalize_images: no images");
  require(
      bytes.dim() == 4 && bytes.size(1) == 3 && bytes.scalar_type() == c10::kByte && bytes.layout() == c10::kStrided,
      "images are uint8 [n, 3, h, w]", bytes);
  if (options.dtype != c10::kFloat && options.dtype != c10::kHalf && options.dtype != c10::kBFloat16) {
    throw UsageError(std::string("normalize_images: into ") + c10::toString(options.dtype) +
                     "; it makes float, half and bfloat16");
  }
  if (options.format != at::MemoryFormat::ChannelsLast && options.format != at::MemoryFormat::Contiguous) {
    throw UsageError("normalize_images: into a memory format that is neither channels_last nor contiguous");
  }
  if (!flips.defined()) return;
  require((flips.scalar_type() == c10::kByte || flips.scalar_type() == c10::kBool) && flips.dim() == 1 &&
              flips.size(0) == bytes.size(0) && flips.device() == bytes.device(),
          "flips are uint8 or bool, one an image, where the images are", flips);
}

// False: this rank has no kernels on that device.
bool launch(Engine& engine, const at::Tensor& bytes, const NormalizeOptions& options, const at::Tensor& flips,
            const at::Tensor& out) {
  const at::Tensor pixels = bytes.contiguous(at::MemoryFormat::ChannelsLast);
  const at::Tensor mirrored = flips.defined() ? flips.contiguous() : flips;
  ImageBatch batch;
  batch.pixels = pixels.const_data_ptr<std::uint8_t>();
  if (mirrored.defined()) batch.flips = static_cast<const std::uint8_t*>(mirrored.const_data_ptr());
  batch.out = out.mutable_data_ptr();
  batch.images = static_cast<std::size_t>(bytes.size(0));
  batch.height = static_cast<std::size_t>(bytes.size(2));
  batch.width = static_cast<std::size_t>(bytes.size(3));
  batch.dtype = to_dtype(options.dtype, "images");
  batch.layout = options.format == at::MemoryFormat::ChannelsLast ? ImageLayout::nhwc : ImageLayout::nchw;
  batch.mean = options.mean;
  batch.deviation = options.deviation;
  return engine.normalize_images(batch, to_stream(current_stream(bytes.device())));
}

at::Tensor a_number_a_channel(const std::array<float, 3>& numbers, const c10::Device& device) {
  return at::tensor(c10::ArrayRef<float>(numbers.data(), numbers.size())).view({1, 3, 1, 1}).to(device);
}

// The same by LibTorch's operations, which round where the kernel does.
at::Tensor compute(const at::Tensor& bytes, const NormalizeOptions& options, const at::Tensor& flips) {
  std::array<float, 3> factor{}, shift{};
  for (std::size_t c = 0; c < factor.size(); ++c) {
    factor[c] = 1.0F / (kByteRange * options.deviation[c]);
    shift[c] = -options.mean[c] / options.deviation[c];
  }
  at::Tensor images = bytes;
  if (flips.defined()) images = at::where(flips.to(c10::kBool).view({-1, 1, 1, 1}), images.flip({3}), images);
  images = images.to(c10::kFloat).mul_(a_number_a_channel(factor, bytes.device()));
  return images.add_(a_number_a_channel(shift, bytes.device())).to(options.dtype).contiguous(options.format);
}

}  // namespace

at::Tensor normalize_images(Context& context, const at::Tensor& bytes, const NormalizeOptions& options,
                            const at::Tensor& flips) {
  check(bytes, options, flips);
  const c10::NoGradGuard no_grad;
  if (!bytes.is_cpu() && is_reducible(bytes.device())) {
    const at::Tensor out = at::empty(bytes.sizes(), bytes.options().dtype(options.dtype), options.format);
    if (launch(context.engine(), bytes, options, flips, out)) return out;
  }
  return compute(bytes, options, flips);
}

}  // namespace kolo
