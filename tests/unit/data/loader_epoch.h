#pragma once
// A loader's epoch as one value.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "kolo/data/loader.h"

namespace kolo::data {

inline std::vector<std::int64_t> range(std::int64_t count) {
  std::vector<std::int64_t> indices(static_cast<std::size_t>(count));
  std::iota(indices.begin(), indices.end(), 0);
  return indices;
}

inline LoaderOptions small_options() {
  LoaderOptions options;
  options.transform.image_size = 16;
  options.batch_size = 4;
  options.workers = 2;
  options.timeout = std::chrono::seconds(60);
  return options;
}

// Everything an epoch delivers.
struct Epoch {
  std::vector<float> images;
  std::vector<std::uint8_t> bytes;  // or these
  std::vector<std::int64_t> labels;
  std::vector<std::int64_t> indices;
  std::vector<std::int64_t> counts;
  bool operator==(const Epoch&) const = default;
};

inline Epoch run_epoch(Loader& loader, std::int64_t epoch, std::vector<std::int64_t> indices,
                       std::size_t pixels = 16 * 16 * 3) {
  loader.start_epoch(epoch, std::move(indices));
  Epoch all;
  while (const auto batch = loader.next()) {
    EXPECT_EQ(batch->number, static_cast<std::int64_t>(all.counts.size()));
    EXPECT_EQ((reinterpret_cast<std::uintptr_t>(batch->images) | reinterpret_cast<std::uintptr_t>(batch->bytes)) % 64,
              0U);
    EXPECT_NE(batch->images == nullptr, batch->bytes == nullptr);
    const auto count = static_cast<std::size_t>(batch->count);
    if (batch->images != nullptr) {
      all.images.insert(all.images.end(), batch->images, batch->images + count * pixels);
    } else {
      all.bytes.insert(all.bytes.end(), batch->bytes, batch->bytes + count * pixels);
    }
    all.labels.insert(all.labels.end(), batch->labels, batch->labels + count);
    all.indices.insert(all.indices.end(), batch->indices, batch->indices + count);
    all.counts.push_back(batch->count);
  }
  return all;
}

inline std::shared_ptr<const Dataset> jpegs(std::int64_t size) {
  return std::make_shared<SyntheticJpegs>(
      SyntheticJpegOptions{.size = size, .classes = 5, .width = 50, .height = 40, .distinct = 7});
}

}  // namespace kolo::data
