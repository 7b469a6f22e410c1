#pragma once
#include <span>

#include "image.h"

namespace kolo::data {

[[nodiscard]] bool is_png(std::span<const std::byte> bytes) noexcept;
[[nodiscard]] ImageHeader read_png_header(std::span<const std::byte> png);
// The whole image as 8-bit RGB. Transparency is dropped, 16 bits become their high byte; gamma and profiles are
// ignored.
void decode_png(std::span<const std::byte> png, Pixels& pixels);

}  // namespace kolo::data
