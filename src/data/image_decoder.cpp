#include "image_decoder.h"

#include "png_decoder.h"

namespace kolo::data {
namespace {

bool is_jpeg(std::span<const std::byte> bytes) {
  return bytes.size() >= 2 && bytes[0] == std::byte{0xFF} && bytes[1] == std::byte{0xD8};
}

}  // namespace

ImageHeader ImageDecoder::open(std::span<const std::byte> bytes) {
  png_ = {};
  if (bytes.empty()) throw BrokenImage("the file is empty");
  if (is_jpeg(bytes)) return jpeg_.open(bytes);
  if (!is_png(bytes)) throw BrokenImage("neither a JPEG nor a PNG");
  ImageHeader header = read_png_header(bytes);
  png_ = bytes;
  return header;
}

int ImageDecoder::reduction_for(double wanted) const {
  if (!png_.empty()) return 1;
  int reduction = 8;
  while (reduction > 1 && reduction > wanted) reduction /= 2;
  return reduction;
}

void ImageDecoder::decode(const Window& wanted, int reduction, Pixels& pixels) {
  png_.empty() ? jpeg_.decode(wanted, reduction, pixels) : decode_png(png_, pixels);
}

}  // namespace kolo::data
