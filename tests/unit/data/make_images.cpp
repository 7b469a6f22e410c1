#include "make_images.h"

#include <png.h>

#include <algorithm>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>

#include <jpeglib.h>

namespace kolo::test {
namespace {

std::uint8_t clamp(double value) { return static_cast<std::uint8_t>(std::lround(std::fmin(255, std::fmax(0, value)))); }

// Inverted, as Adobe writes it, with the most black possible.
std::vector<std::uint8_t> to_cmyk(const Rgb& image) {
  std::vector<std::uint8_t> out;
  for (std::size_t i = 0; i < image.bytes.size(); i += 3) {
    const int key = std::max({1, int{image.bytes[i]}, int{image.bytes[i + 1]}, int{image.bytes[i + 2]}});
    for (std::size_t c = 0; c < 3; ++c) out.push_back(clamp(image.bytes[i + c] * 255.0 / key));
    out.push_back(static_cast<std::uint8_t>(key));
  }
  return out;
}

std::vector<std::uint8_t> to_grey(const Rgb& image) {
  std::vector<std::uint8_t> out;
  for (std::size_t i = 0; i < image.bytes.size(); i += 3) out.push_back(image.bytes[i]);
  return out;
}

void choose_colours(jpeg_compress_struct& info, JpegKind kind, int quality) {
  const bool four = kind == JpegKind::cmyk || kind == JpegKind::ycck;
  info.input_components = four ? 4 : kind == JpegKind::grey ? 1 : 3;
  info.in_color_space = four ? JCS_CMYK : kind == JpegKind::grey ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(&info);
  if (four) {
    jpeg_set_colorspace(&info, kind == JpegKind::ycck ? JCS_YCCK : JCS_CMYK);
    info.write_Adobe_marker = TRUE;
  }
  if (kind == JpegKind::colour444) info.comp_info[0].h_samp_factor = info.comp_info[0].v_samp_factor = 1;
  if (kind == JpegKind::progressive) jpeg_simple_progression(&info);
  jpeg_set_quality(&info, quality, TRUE);
}

// `choose` sets the colours, after the size.
template <typename Choose>
std::string compress(const Rgb& image, Choose&& choose) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* output = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &output, &size);
  info.image_width = static_cast<JDIMENSION>(image.width);
  info.image_height = static_cast<JDIMENSION>(image.height);
  choose(info);
  std::vector<std::uint8_t> pixels = info.input_components == 4   ? to_cmyk(image)
                                     : info.input_components == 1 ? to_grey(image)
                                                                  : image.bytes;
  jpeg_start_compress(&info, TRUE);
  while (info.next_scanline < info.image_height) {
    JSAMPROW row = pixels.data() + static_cast<std::size_t>(info.next_scanline) * info.image_width *
                                       static_cast<std::size_t>(info.input_components);
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  std::string result(reinterpret_cast<char*>(output), size);
  jpeg_destroy_compress(&info);
  std::free(output);
  return result;
}

}  // namespace

Rgb smooth_image(int width, int height) {
  Rgb image{width, height, {}};
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      image.bytes.push_back(clamp(128 + 90 * std::sin(x * 0.031 + y * 0.012)));
      image.bytes.push_back(clamp(128 + 90 * std::sin(y * 0.027 - x * 0.009 + 1)));
      image.bytes.push_back(clamp(128 + 90 * std::cos((x + y) * 0.019)));
    }
  }
  return image;
}

Rgb rough_image(int width, int height) {
  Rgb image{width, height, {}};
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      for (int c = 0; c < 3; ++c) {
        image.bytes.push_back(static_cast<std::uint8_t>((x * x * 3 + y * y * 5 + x * y * 7 + c * 500) / 16 % 256));
      }
    }
  }
  return image;
}

std::string encode(const Rgb& image, JpegKind kind, int quality) {
  return compress(image, [&](jpeg_compress_struct& info) { choose_colours(info, kind, quality); });
}

std::string encode_sampled(const Rgb& image, const std::vector<Sampling>& factors, Scans scans) {
  const JpegKind kind = factors.size() == 1   ? JpegKind::grey
                        : factors.size() == 3 ? JpegKind::colour420
                                              : JpegKind::ycck;
  std::vector<jpeg_scan_info> script;
  for (int component = 0; component < static_cast<int>(factors.size()); ++component) {
    if (scans == Scans::progressive) {
      script.push_back({1, {component}, 0, 0, 0, 0});
      script.push_back({1, {component}, 1, 63, 0, 0});
    } else {
      script.push_back({1, {component}, 0, 63, 0, 0});
    }
  }
  return compress(image, [&](jpeg_compress_struct& info) {
    choose_colours(info, kind, 95);
    for (std::size_t i = 0; i < factors.size(); ++i) {
      info.comp_info[i].h_samp_factor = factors[i].h;
      info.comp_info[i].v_samp_factor = factors[i].v;
    }
    if (scans == Scans::one) return;
    info.scan_info = script.data();
    info.num_scans = static_cast<int>(script.size());
  });
}

std::string encode_png(const Rgb& image, bool with_alpha) {
  std::vector<std::uint8_t> pixels;
  for (std::size_t i = 0; i < image.bytes.size(); i += 3) {
    pixels.insert(pixels.end(), {image.bytes[i], image.bytes[i + 1], image.bytes[i + 2]});
    if (with_alpha) pixels.push_back(static_cast<std::uint8_t>(i % 256));
  }
  png_image png{};
  png.version = PNG_IMAGE_VERSION;
  png.width = static_cast<png_uint_32>(image.width);
  png.height = static_cast<png_uint_32>(image.height);
  png.format = with_alpha ? PNG_FORMAT_RGBA : PNG_FORMAT_RGB;
  png_alloc_size_t size = 0;
  if (png_image_write_get_memory_size(png, size, 0, pixels.data(), 0, nullptr) == 0) throw std::runtime_error("png");
  std::string result(size, '\0');
  if (png_image_write_to_memory(&png, result.data(), &size, 0, pixels.data(), 0, nullptr) == 0) {
    throw std::runtime_error("png");
  }
  result.resize(size);
  return result;
}

Rgb decode_whole(const std::string& jpeg, int reduction) {
  jpeg_decompress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&info);
  jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(jpeg.data()), jpeg.size());
  jpeg_read_header(&info, TRUE);
  info.scale_num = 1;
  info.scale_denom = static_cast<unsigned>(reduction);
  const bool cmyk = info.num_components == 4;
  info.out_color_space = cmyk ? JCS_CMYK : JCS_RGB;
  info.dct_method = JDCT_ISLOW;
  jpeg_start_decompress(&info);
  Rgb image{static_cast<int>(info.output_width), static_cast<int>(info.output_height), {}};
  std::vector<std::uint8_t> line(static_cast<std::size_t>(info.output_width) * (cmyk ? 4 : 3));
  while (info.output_scanline < info.output_height) {
    JSAMPROW row = line.data();
    jpeg_read_scanlines(&info, &row, 1);
    for (std::size_t i = 0; i < line.size(); ++i) {
      if (!cmyk) image.bytes.push_back(line[i]);
      if (cmyk && i % 4 < 3) image.bytes.push_back(clamp(line[i] * line[i / 4 * 4 + 3] / 255.0));
    }
  }
  jpeg_finish_decompress(&info);
  jpeg_destroy_decompress(&info);
  return image;
}

}  // namespace kolo::test
