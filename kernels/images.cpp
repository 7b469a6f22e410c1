#include "kernels/images.h"

#include <algorithm>

#include "kernels/images_arguments.h"
#include "kernels/launch_shape.h"
#include "kolo/error.h"

namespace kolo::kernels {
namespace {

// All of them fit in 32 bits, and so does their product.
void check(const ImageBatch& batch) {
  constexpr std::size_t kMost = 0xffffffff;
  if (batch.dtype != DType::f32 && batch.dtype != DType::f16 && batch.dtype != DType::bf16) {
    throw UsageError("normalize_images: dtype is " + std::string(name_of(batch.dtype)) +
                     "; it must be f32, f16 or bf16");
  }
  std::size_t pixels = 1;
  for (const std::size_t factor : {batch.images, batch.height, batch.width}) {
    if (factor == 0) return;
    if (factor > kMost / pixels) throw UsageError("normalize_images: a batch must have fewer than 2^32 pixels");
    pixels *= factor;
  }
}

}  // namespace

void normalize_images(cuda::KernelImage& image, const ImageBatch& batch, Stream stream) {
  check(batch);
  const std::size_t values = batch.images * batch.height * batch.width * 3;
  const unsigned blocks = blocks_for(values * size_of(batch.dtype), resident_blocks(image.runtime(), stream.device));
  if (blocks == 0) return;
  ImagesArguments arguments;
  arguments.pixels = reinterpret_cast<const std::byte*>(batch.pixels);
  arguments.flips = reinterpret_cast<const std::byte*>(batch.flips);
  arguments.out = static_cast<std::byte*>(batch.out);
  arguments.images = static_cast<std::uint32_t>(batch.images);
  arguments.height = static_cast<std::uint32_t>(batch.height);
  arguments.width = static_cast<std::uint32_t>(batch.width);
  arguments.dtype = batch.dtype;
  arguments.channels_last = batch.layout == ImageLayout::nhwc;
  const ChannelTerms terms(batch.mean, batch.deviation);
  std::copy(terms.factor.begin(), terms.factor.end(), arguments.factor);
  std::copy(terms.shift.begin(), terms.shift.end(), arguments.shift);
  image.launch({"kolo_images", blocks, kThreads}, arguments, stream);
}

}  // namespace kolo::kernels
