#include <algorithm>

#include "jpeg_encoder.h"
#include "kolo/data/dataset.h"
#include "kolo/error.h"
#include "synth_pattern.h"

namespace kolo::data {
namespace {
constexpr int kQuality = 90;
}

SyntheticJpegs::SyntheticJpegs(const SyntheticJpegOptions& options) : options_(options) {
  if (options.size < 1 || options.classes < 1 || options.width < 1 || options.height < 1 || options.distinct < 1) {
    throw UsageError("SyntheticJpegs: size, classes, width, height and distinct must be at least 1");
  }
  const std::int64_t count = std::min<std::int64_t>(options.distinct, options.size);
  for (std::int64_t i = 0; i < count; ++i) {
    const auto rgb =
        draw_pattern({label(i), options.width, options.height, options.seed, static_cast<std::uint64_t>(i)});
    images_.push_back(encode_jpeg(rgb, options.width, options.height, kQuality));
  }
}

std::span<const std::byte> SyntheticJpegs::bytes(std::int64_t index, std::vector<std::byte>& /*scratch*/) const {
  return images_[static_cast<std::size_t>(index) % images_.size()];
}

std::int64_t SyntheticJpegs::label(std::int64_t index) const {
  const std::int64_t distinct = std::min<std::int64_t>(options_.distinct, options_.size);
  return index % distinct % options_.classes;
}

std::string SyntheticJpegs::name(std::int64_t index) const {
  return "synthetic:" + std::to_string(static_cast<std::size_t>(index) % images_.size());
}

}  // namespace kolo::data
