// libpng reports errors by longjmp. Rules of this file: every call that may fail runs inside guarded(); the code that
// it runs has no local variable with a destructor; all that owns memory lives in Reader or the caller.
#include "png_decoder.h"

#include <png.h>

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstring>

namespace kolo::data {
namespace {

constexpr std::size_t kSignature = 8;

class Reader {
 public:
  // Reads up to the first pixel. `bytes` must outlive the reader.
  explicit Reader(std::span<const std::byte> bytes) : rest_(bytes) {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, on_error, on_warning);
    if (png_ == nullptr) throw BackendError("libpng: cannot create a reader. Is memory exhausted?");
    if (!guarded([this] { read_info(); })) fail();
    if (std::int64_t{width()} * height() > kMaxPixels) {
      const std::string size = std::to_string(width()) + " x " + std::to_string(height());
      png_destroy_read_struct(&png_, &info_, nullptr);
      throw BrokenImage("a PNG of " + size + " pixels is too large, so the file counts as damaged");
    }
  }
  ~Reader() { png_destroy_read_struct(&png_, &info_, nullptr); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  [[nodiscard]] int width() const { return static_cast<int>(png_get_image_width(png_, info_)); }
  [[nodiscard]] int height() const { return static_cast<int>(png_get_image_height(png_, info_)); }

  // width * height * 3 bytes.
  void read_rgb(std::uint8_t* rgb) {
    if (!guarded([this, rgb] { read_rows(rgb); })) fail();
  }

 private:
  // False if libpng jumped out; text_ is the reason.
  template <typename Calls>
  bool guarded(Calls&& calls) {
    if (setjmp(jump_) != 0) return false;
    calls();
    return true;
  }

  [[noreturn]] void fail() {
    png_destroy_read_struct(&png_, &info_, nullptr);
    throw BrokenImage(std::string("PNG: ") + text_.data());
  }

  void read_info();
  void read_rows(std::uint8_t* rgb);

  [[noreturn]] static void on_error(png_structp png, png_const_charp text) {
    auto* reader = static_cast<Reader*>(png_get_error_ptr(png));
    std::strncpy(reader->text_.data(), text, reader->text_.size() - 1);
    std::longjmp(reader->jump_, 1);
  }
  static void on_warning(png_structp /*png*/, png_const_charp /*text*/) {}
  static void on_read(png_structp png, png_bytep target, std::size_t count);

  std::span<const std::byte> rest_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  std::jmp_buf jump_;
  std::array<char, 200> text_{};
};

void Reader::on_read(png_structp png, png_bytep target, std::size_t count) {
  auto* reader = static_cast<Reader*>(png_get_io_ptr(png));
  if (count > reader->rest_.size()) png_error(png, "truncated");
  std::memcpy(target, reader->rest_.data(), count);
  reader->rest_ = reader->rest_.subspan(count);
}

void Reader::read_info() {
  info_ = png_create_info_struct(png_);
  if (info_ == nullptr) png_error(png_, "out of memory");
  png_set_read_fn(png_, this, on_read);
  // Only the chunks that hold pixels: gamma and colour profiles change no value.
  png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
  png_read_info(png_, info_);
}

void Reader::read_rows(std::uint8_t* rgb) {
  png_set_strip_16(png_);  // the high byte
  png_set_expand(png_);    // palettes, and grey of 1, 2 and 4 bits
  png_set_gray_to_rgb(png_);
  png_set_strip_alpha(png_);
  const int passes = png_set_interlace_handling(png_);
  png_read_update_info(png_, info_);
  const std::size_t stride = std::size_t{png_get_image_width(png_, info_)} * 3;
  if (png_get_rowbytes(png_, info_) != stride) png_error(png_, "pixels are not RGB");
  for (int pass = 0; pass < passes; ++pass) {
    for (int y = 0; y < height(); ++y) png_read_row(png_, rgb + static_cast<std::size_t>(y) * stride, nullptr);
  }
}

}  // namespace

bool is_png(std::span<const std::byte> bytes) noexcept {
  return bytes.size() >= kSignature && png_sig_cmp(reinterpret_cast<png_const_bytep>(bytes.data()), 0, kSignature) == 0;
}

ImageHeader read_png_header(std::span<const std::byte> png) {
  const Reader reader(png);
  return {reader.width(), reader.height(), "PNG"};
}

void decode_png(std::span<const std::byte> png, Pixels& pixels) {
  Reader reader(png);
  pixels.reserve(static_cast<std::size_t>(reader.width()) * static_cast<std::size_t>(reader.height()) * 3);
  reader.read_rgb(pixels.rgb.data());
  pixels.window = {0, 0, reader.width(), reader.height()};
}

}  // namespace kolo::data
