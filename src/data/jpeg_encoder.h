#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace kolo::data {

// width * height * 3 bytes of RGB to a baseline JPEG with 4:2:0 chroma.
[[nodiscard]] std::vector<std::byte> encode_jpeg(std::span<const std::uint8_t> rgb, int width, int height, int quality);

}  // namespace kolo::data
