#pragma once
#include <memory>
#include <span>

#include "image.h"

namespace kolo::data {

// Decodes a window of a JPEG, at full size or reduced by 2, 4 or 8 inside the inverse DCT. One object per thread, used
// again for every image.
class JpegDecoder {
 public:
  JpegDecoder();
  ~JpegDecoder();
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;

  // `jpeg` must live until decode() has returned. BrokenImage for anything but a whole JPEG with colours we know.
  ImageHeader open(std::span<const std::byte> jpeg);

  // Of the image opened last, which is `reduction` times smaller: ceil(width / reduction). `wanted` is in reduced
  // pixels; what is delivered may be wider. BrokenImage when the data turn out to be damaged on the way.
  void decode(const Window& wanted, int reduction, Pixels& pixels);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kolo::data
