#include "kolo/data/normalize_images.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/where.h>
#include <c10/core/GradMode.h>

#include <cmath>
#include <sstream>

#include "kolo/error.h"
#include "kolo/spi/engine.h"
#include "torch/dtype.h"
#include "torch/tensor_check.h"
#include "torch/torch_device.h"

namespace kolo {
namespace {

constexpr std::int64_t kMostPixels = (std::int64_t{1} << 32) - 1;

void require(bool holds, const char* what, const at::Tensor& found) {
  if (holds) return;
  std::ostringstream text;
  text << "normalize_images: " << what << ", not " << found.scalar_type();
  if (!found.is_nested()) text << ' ' << found.sizes();
  text << " on " << found.device();
  throw UsageError(text.str());
}

void require_usable(const at::Tensor& tensor, const char* what) {
  const auto trouble = trouble_with(tensor, Access::read);
  if (!trouble.empty()) throw UsageError(std::string("normalize_images: the tensor of ") + what + ' ' + trouble);
}

void check(const NormalizeOptions& options) {
  if (options.dtype != c10::kFloat && options.dtype != c10::kHalf && options.dtype != c10::kBFloat16) {
    throw UsageError(std::string("normalize_images: dtype is ") + c10::toString(options.dtype) +
                     "; it must be float, half or bfloat16");
  }
  if (options.format != at::MemoryFormat::ChannelsLast && options.format != at::MemoryFormat::Contiguous) {
    throw UsageError("normalize_images: the memory format must be channels_last or contiguous");
  }
  for (std::size_t c = 0; c < options.mean.size(); ++c) {
    if (!std::isfinite(options.mean[c]))
      throw UsageError("normalize_images: mean of channel " + std::to_string(c) + " is " +
                       std::to_string(options.mean[c]) + "; it must be finite");
    if (!(options.deviation[c] > 0))
      throw UsageError("normalize_images: deviation of channel " + std::to_string(c) + " is " +
                       std::to_string(options.deviation[c]) + "; it must be positive");
  }
}

void check(const at::Tensor& bytes, const at::Tensor& flips) {
  if (!bytes.defined()) throw UsageError("normalize_images: the tensor of images is undefined");
  require(!bytes.is_nested() && bytes.dim() == 4 && bytes.size(1) == 3 && bytes.scalar_type() == c10::kByte,
          "images must be uint8 [n, 3, h, w]", bytes);
  require(bytes.layout() == c10::kStrided && is_reducible(bytes.device()),
          "images must be dense, in CPU memory or on a GPU", bytes);
  require_usable(bytes, "images");
  require(bytes.numel() / 3 <= kMostPixels, "images must have fewer than 2^32 pixels in total", bytes);
  if (!flips.defined()) return;
  require((flips.scalar_type() == c10::kByte || flips.scalar_type() == c10::kBool) && flips.dim() == 1 &&
              flips.size(0) == bytes.size(0) && flips.layout() == c10::kStrided && flips.device() == bytes.device(),
          "flips must be uint8 or bool, one for each image, on the images' device", flips);
  require_usable(flips, "flips");
}

void launch(Engine& engine, const at::Tensor& bytes, const NormalizeOptions& options, const at::Tensor& flips,
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
  engine.normalize_images(batch, to_stream(current_stream(bytes.device())));
}

// The same by LibTorch's operations, which round where the kernel does. The numbers are arguments of these: a tensor of
// them would have to be copied to the device, and the host would wait for that.
void compute(const at::Tensor& bytes, const NormalizeOptions& options, const at::Tensor& flips, const at::Tensor& out) {
  at::Tensor images = bytes;
  if (flips.defined()) images = at::where(flips.to(c10::kBool).view({-1, 1, 1, 1}), images.flip({3}), images);
  const at::Tensor floats =
      options.dtype == c10::kFloat ? out : at::empty(out.sizes(), out.options().dtype(c10::kFloat), options.format);
  floats.copy_(images);
  const ChannelTerms terms(options.mean, options.deviation);
  for (std::int64_t c = 0; c < 3; ++c) {
    const auto channel = static_cast<std::size_t>(c);
    floats.select(1, c).mul_(terms.factor[channel]).add_(terms.shift[channel]);
  }
  if (!floats.is_same(out)) out.copy_(floats);
}

}  // namespace

at::Tensor normalize_images(Context& context, const at::Tensor& bytes, const NormalizeOptions& options,
                            const at::Tensor& flips) {
  check(options);
  check(bytes, flips);
  const c10::NoGradGuard no_grad;
  const at::Tensor out = at::empty(bytes.sizes(), bytes.options().dtype(options.dtype), options.format);
  const at::Tensor pixels = resolved(bytes);
  const at::Tensor mirrored = flips.defined() ? resolved(flips) : flips;
  if (!bytes.is_cpu() && context.engine().has_kernels(bytes.device().index())) {
    launch(context.engine(), pixels, options, mirrored, out);
  } else {
    compute(pixels, options, mirrored, out);
  }
  return out;
}

}  // namespace kolo
