#include "jpeg_encoder.h"

#include <array>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include <jpeglib.h>

#include "kolo/error.h"

namespace kolo::data {
namespace {

// What owns memory is here and not on the stack of a function that libjpeg may jump out of.
struct Encoder {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  std::jmp_buf jump;
  std::array<char, JMSG_LENGTH_MAX> text{};
  unsigned char* output = nullptr;
  unsigned long size = 0;

  ~Encoder() {
    jpeg_destroy_compress(&info);
    std::free(output);
  }

  bool run(const std::uint8_t* rgb, int width, int height, int quality);
};

[[noreturn]] void on_error(j_common_ptr info) {
  auto* encoder = static_cast<Encoder*>(info->client_data);
  info->err->format_message(info, encoder->text.data());
  std::longjmp(encoder->jump, 1);
}

bool Encoder::run(const std::uint8_t* rgb, int width, int height, int quality) {
  info.err = jpeg_std_error(&errors);
  errors.error_exit = on_error;
  info.client_data = this;
  if (setjmp(jump) != 0) return false;
  jpeg_create_compress(&info);
  info.client_data = this;
  jpeg_mem_dest(&info, &output, &size);
  info.image_width = static_cast<JDIMENSION>(width);
  info.image_height = static_cast<JDIMENSION>(height);
  info.input_components = 3;
  info.in_color_space = JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, quality, TRUE);
  jpeg_start_compress(&info, TRUE);
  while (info.next_scanline < info.image_height) {
    // libjpeg does not write to its input, but is older than const.
    JSAMPROW row = const_cast<JSAMPROW>(rgb + static_cast<std::size_t>(info.next_scanline) * info.image_width * 3);
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  return true;
}

}  // namespace

std::vector<std::byte> encode_jpeg(std::span<const std::uint8_t> rgb, int width, int height, int quality) {
  if (width <= 0 || height <= 0 ||
      rgb.size() != static_cast<std::size_t>(width) * static_cast<std::size_t>(height) * 3) {
    throw UsageError("encode_jpeg: pixels must have width * height * 3 bytes");
  }
  const auto encoder = std::make_unique<Encoder>();
  if (!encoder->run(rgb.data(), width, height, quality)) {
    throw BackendError(std::string("libjpeg: ") + encoder->text.data());
  }
  const auto* bytes = reinterpret_cast<const std::byte*>(encoder->output);
  return {bytes, bytes + encoder->size};
}

}  // namespace kolo::data
