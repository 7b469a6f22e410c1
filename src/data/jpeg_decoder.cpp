// libjpeg reports errors by longjmp. Rules of this file: every call that may fail runs inside guarded(); what it runs
// has no local variable with a destructor, so nothing is skipped; all that owns memory lives in Impl or the caller.
#include "jpeg_decoder.h"

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstdio>

#include <jpeglib.h>
// after jpeglib.h
#include <jerror.h>

namespace kolo::data {
namespace {

// Beyond the wanted window on the left and right, in pixels: smooth chroma upsampling looks one chroma pixel (two of
// ours) aside, and libjpeg treats the edge of what it decodes as the edge of the image.
constexpr int kMargin = 4;
constexpr int kRowsAtOnce = 16;

struct Errors {
  jpeg_error_mgr manager;  // first: libjpeg hands back a pointer to it
  std::jmp_buf jump;
  std::array<char, JMSG_LENGTH_MAX> text;
};

Errors& errors_of(j_common_ptr info) { return *reinterpret_cast<Errors*>(info->err); }

[[noreturn]] void on_error(j_common_ptr info) {
  Errors& errors = errors_of(info);
  errors.manager.format_message(info, errors.text.data());
  std::longjmp(errors.jump, 1);
}

// Warnings of libjpeg after which pixels are invented. Others (bytes before a marker, odd version numbers) are common
// in ImageNet and harmless.
bool means_damage(int code) {
  return code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER || code == JWRN_HUFF_BAD_CODE || code == JWRN_MUST_RESYNC ||
         code == JWRN_ARITH_BAD_CODE;
}

void on_message(j_common_ptr info, int level) {
  if (level < 0 && means_damage(info->err->msg_code)) on_error(info);
}

void print_nothing(j_common_ptr /*info*/) {}

// A whole JPEG ends with the marker FF D9, which cannot occur inside its entropy-coded data. Looked for from the end,
// because some files carry other bytes behind it.
bool has_end_marker(const std::uint8_t* begin, std::size_t size) {
  for (std::size_t i = size; i >= 2; --i) {
    if (begin[i - 2] == 0xFF && begin[i - 1] == 0xD9) return true;
  }
  return false;
}

const char* name_of_conversion(const jpeg_decompress_struct& info) {
  switch (info.jpeg_color_space) {
    case JCS_GRAYSCALE:
      return "grey JPEG";
    case JCS_CMYK:
      return "CMYK JPEG";
    case JCS_YCCK:
      return "YCCK JPEG";
    default:
      return "";
  }
}

// False where libjpeg-turbo 2.1 crops rows wrongly: it takes the width of a component from its sampling factor alone.
// At a reduced scale, a component with a quarter of the samples has another scale than the image, and is enlarged.
bool can_crop_rows(const jpeg_decompress_struct& info) {
  return info.scale_denom == 1 || (info.max_h_samp_factor <= 2 && info.max_v_samp_factor <= 2);
}

// Four bytes a pixel to three, in place. Every CMYK JPEG in the wild is Adobe's: its values are inverted, 255 is no
// ink.
void cmyk_to_rgb(std::uint8_t* row, int width) {
  const std::uint8_t* from = row;
  for (int x = 0; x < width; ++x, from += 4, row += 3) {
    const int key = from[3];
    for (int c = 0; c < 3; ++c) row[c] = static_cast<std::uint8_t>((from[c] * key + 127) / 255);
  }
}

}  // namespace

struct JpegDecoder::Impl {
  jpeg_decompress_struct info{};
  Errors errors{};
  std::vector<std::uint8_t> rows;  // CMYK before conversion
  Window got;

  // False when libjpeg jumped out; errors.text says why.
  template <typename Calls>
  bool guarded(Calls&& calls) {
    if (setjmp(errors.jump) != 0) return false;
    calls();
    return true;
  }

  [[noreturn]] void fail() {
    jpeg_abort_decompress(&info);
    throw BrokenImage(errors.text.data());
  }

  void start(const Window& wanted, int reduction);
  void read_rgb(std::uint8_t* target);
  void read_cmyk(std::uint8_t* target);
};

JpegDecoder::JpegDecoder() : impl_(std::make_unique<Impl>()) {
  Impl& impl = *impl_;
  impl.info.err = jpeg_std_error(&impl.errors.manager);
  impl.errors.manager.error_exit = on_error;
  impl.errors.manager.emit_message = on_message;
  impl.errors.manager.output_message = print_nothing;
  if (!impl.guarded([&] { jpeg_create_decompress(&impl.info); })) throw BackendError(impl.errors.text.data());
}

JpegDecoder::~JpegDecoder() { jpeg_destroy_decompress(&impl_->info); }

ImageHeader JpegDecoder::open(std::span<const std::byte> jpeg) {
  Impl& impl = *impl_;
  jpeg_decompress_struct& info = impl.info;
  jpeg_abort_decompress(&info);  // whatever the image before left
  const bool read = impl.guarded([&] {
    jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(jpeg.data()), jpeg.size());
    jpeg_read_header(&info, TRUE);
  });
  if (!read) impl.fail();
  if (static_cast<std::int64_t>(info.image_width) * info.image_height > kMaxPixels) {
    throw BrokenImage("a JPEG of " + std::to_string(info.image_width) + " x " + std::to_string(info.image_height) +
                      " pixels is too large, so the file counts as damaged");
  }
  if (!has_end_marker(info.src->next_input_byte, info.src->bytes_in_buffer)) {
    throw BrokenImage("truncated JPEG: it has no end marker");
  }
  return {static_cast<int>(info.image_width), static_cast<int>(info.image_height), name_of_conversion(info)};
}

void JpegDecoder::Impl::start(const Window& wanted, int reduction) {
  const bool cmyk = info.jpeg_color_space == JCS_CMYK || info.jpeg_color_space == JCS_YCCK;
  info.out_color_space = cmyk ? JCS_CMYK : JCS_RGB;
  info.scale_num = 1;
  info.scale_denom = static_cast<unsigned>(reduction);
  info.dct_method = JDCT_ISLOW;
  jpeg_start_decompress(&info);
  const int full = static_cast<int>(info.output_width);
  JDIMENSION left = static_cast<JDIMENSION>(std::max(0, wanted.x - kMargin));
  JDIMENSION width = static_cast<JDIMENSION>(std::min(full, wanted.x + wanted.width + kMargin)) - left;
  if (static_cast<int>(width) < full && can_crop_rows(info)) {
    jpeg_crop_scanline(&info, &left, &width);
  } else {
    left = 0;
  }
  if (wanted.y > 0) jpeg_skip_scanlines(&info, static_cast<JDIMENSION>(wanted.y));
  got = {static_cast<int>(left), wanted.y, static_cast<int>(info.output_width), wanted.height};
}

void JpegDecoder::Impl::read_rgb(std::uint8_t* target) {
  const std::size_t stride = static_cast<std::size_t>(got.width) * 3;
  std::array<JSAMPROW, kRowsAtOnce> lines;
  int done = 0;
  while (done < got.height) {
    const int count = std::min(kRowsAtOnce, got.height - done);
    for (int i = 0; i < count; ++i) {
      lines[static_cast<std::size_t>(i)] = target + static_cast<std::size_t>(done + i) * stride;
    }
    done += static_cast<int>(jpeg_read_scanlines(&info, lines.data(), static_cast<JDIMENSION>(count)));
  }
}

void JpegDecoder::Impl::read_cmyk(std::uint8_t* target) {
  const std::size_t stride = static_cast<std::size_t>(got.width) * 3;
  JSAMPROW line = rows.data();
  for (int done = 0; done < got.height;) {
    if (jpeg_read_scanlines(&info, &line, 1) != 1) continue;
    cmyk_to_rgb(line, got.width);
    std::copy_n(line, stride, target + static_cast<std::size_t>(done) * stride);
    ++done;
  }
}

void JpegDecoder::decode(const Window& wanted, int reduction, Pixels& pixels) {
  Impl& impl = *impl_;
  if (!impl.guarded([&] { impl.start(wanted, reduction); })) impl.fail();
  pixels.window = impl.got;
  const std::size_t count = static_cast<std::size_t>(impl.got.width) * static_cast<std::size_t>(impl.got.height);
  pixels.reserve(count * 3);
  std::uint8_t* target = pixels.rgb.data();
  const bool cmyk = impl.info.out_color_space == JCS_CMYK;
  if (cmyk) impl.rows.resize(static_cast<std::size_t>(impl.got.width) * 4);
  if (!impl.guarded([&] { cmyk ? impl.read_cmyk(target) : impl.read_rgb(target); })) impl.fail();
  jpeg_abort_decompress(&impl.info);  // the rows below the window are of no interest
}

}  // namespace kolo::data
