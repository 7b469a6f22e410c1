#pragma once
#include <optional>
#include <string>
#include <vector>

#include "image_decoder.h"
#include "kolo/data/dataset.h"
#include "kolo/data/transform.h"
#include "resample.h"

namespace kolo::data {

// Encoded bytes to one finished image of a batch: everything a worker does for a sample. One object per thread.
class SampleMaker {
 public:
  SampleMaker(const TransformOptions& options, std::uint64_t seed);

  // Writes image_size * image_size * 3 pixels, floats or bytes. Returns what the file was converted from, if it was
  // (see ImageHeader). BrokenImage or the dataset's BackendError when there is no image to be had; `image` is then
  // undefined.
  std::string make(const Dataset& dataset, std::int64_t index, std::uint64_t epoch, void* image);

 private:
  TransformOptions options_;
  std::uint64_t seed_;
  std::vector<std::byte> file_;
  ImageDecoder decoder_;
  Resampler resampler_;
  Pixels pixels_;
};

}  // namespace kolo::data
