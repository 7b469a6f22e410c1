#include "png_decoder.h"

#include <png.h>

#include <algorithm>

namespace kolo::data {
namespace {

constexpr std::size_t kSignature = 8;

// libpng's simplified interface: it catches its own errors and never jumps into our frames.
struct Png {
  png_image image{};

  explicit Png(std::span<const std::byte> bytes) {
    image.version = PNG_IMAGE_VERSION;
    if (png_image_begin_read_from_memory(&image, bytes.data(), bytes.size()) == 0) {
      throw BrokenImage(std::string("PNG: ") + image.message);
    }
    if (static_cast<std::int64_t>(image.width) * image.height > kMaxPixels) {
      png_image_free(&image);
      throw BrokenImage("a PNG of " + std::to_string(image.width) + " x " + std::to_string(image.height) +
                        " pixels is taken for damage");
    }
  }
  ~Png() { png_image_free(&image); }
  Png(const Png&) = delete;
  Png& operator=(const Png&) = delete;
};

}  // namespace

bool is_png(std::span<const std::byte> bytes) noexcept {
  return bytes.size() >= kSignature && png_sig_cmp(reinterpret_cast<png_const_bytep>(bytes.data()), 0, kSignature) == 0;
}

ImageHeader read_png_header(std::span<const std::byte> png) {
  const Png reader(png);
  return {static_cast<int>(reader.image.width), static_cast<int>(reader.image.height), "PNG"};
}

void decode_png(std::span<const std::byte> png, Pixels& pixels) {
  Png reader(png);
  // RGBA, because libpng would blend RGB onto a background, and what lies under transparency is the photograph.
  reader.image.format = PNG_FORMAT_RGBA;
  const std::size_t count = static_cast<std::size_t>(reader.image.width) * reader.image.height;
  pixels.reserve(count * 4);
  std::uint8_t* bytes = pixels.rgb.data();
  if (png_image_finish_read(&reader.image, nullptr, bytes, 0, nullptr) == 0) {
    throw BrokenImage(std::string("PNG: ") + reader.image.message);
  }
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t c = 0; c < 3; ++c) bytes[3 * i + c] = bytes[4 * i + c];
  }
  pixels.window = {0, 0, static_cast<int>(reader.image.width), static_cast<int>(reader.image.height)};
}

}  // namespace kolo::data
