#include "kernels/images.h"

#include "kernels/images_arguments.h"
#include "kernels/launch_shape.h"
#include "kolo/error.h"

namespace kolo::kernels {
namespace {

constexpr float kByteRange = 255.0F;

// All of them fit in 32 bits, and so does their product.
void check(const ImageBatch& batch) {
  constexpr std::size_t kMost = 0xffffffff;
  if (batch.dtype != DType::f32 && batch.dtype != DType::f16 && batch.dtype != DType::bf16) {
    throw UsageError("normalize_images: into " + std::string(name_of(batch.dtype)) + "; it makes f32, f16 and bf16");
  }
  std::size_t pixels = 1;
  for (const std::size_t factor : {batch.images, batch.height, batch.width}) {
    if (factor == 0) return;
    if (factor > kMost / pixels) throw UsageError("normalize_images: more than 2^32 pixels in a batch");
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
  for (std::size_t c = 0; c < 3; ++c) {
    arguments.factor[c] = 1.0F / (kByteRange * batch.deviation[c]);
    arguments.shift[c] = -batch.mean[c] / batch.deviation[c];
  }
  image.launch({"kolo_images", blocks, kThreads}, arguments, stream);
}

}  // namespace kolo::kernels
