#pragma once
#include <span>

#include "image.h"
#include "jpeg_decoder.h"

namespace kolo::data {

// Any image we read, told by its first bytes and not by its name.
class ImageDecoder {
 public:
  // `bytes` must live until decode() has returned.
  ImageHeader open(std::span<const std::byte> bytes);
  // The largest of 1, 2, 4, 8, not above `wanted`, by which decode() can shrink this image for free.
  [[nodiscard]] int reduction_for(double wanted) const;
  // See JpegDecoder::decode. What is delivered covers `wanted` and may be more.
  void decode(const Window& wanted, int reduction, Pixels& pixels);

 private:
  JpegDecoder jpeg_;
  std::span<const std::byte> png_;  // empty while the image is a JPEG
};

}  // namespace kolo::data
