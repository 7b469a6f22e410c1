// scaled_decode CROPS IMAGE_SIZE FILE...: the difference between training images that kolo scales in the decoder and
// the same crops of a decode at full size, in levels of 0..255.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "data/crop.h"
#include "data/image_decoder.h"
#include "data/resample.h"

namespace kolo::bench {
namespace {

struct Differences {
  double sum = 0;
  std::int64_t values = 0;
  int largest = 0;
  int scaled = 0;  // crops that the decoder scaled

  void add(const Differences& other) {
    sum += other.sum;
    values += other.values;
    largest = std::max(largest, other.largest);
    scaled += other.scaled;
  }
  void print(const char* name, int crops) const {
    std::printf("%-40s %8d %8d %8.2f %8d\n", name, crops, scaled, values == 0 ? 0.0 : sum / static_cast<double>(values),
                largest);
  }
};

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot open " + path);
  return {std::istreambuf_iterator<char>(file), {}};
}

class Renderer {
 public:
  explicit Renderer(const data::TransformOptions& options) : options_(options), resampler_(options) {}

  // Crop number `number` of a JPEG, scaled by the decoder and not.
  Differences compare(const std::string& jpeg, int number) {
    const auto bytes = std::as_bytes(std::span(jpeg));
    const data::ImageHeader header = decoder_.open(bytes);
    data::SampleRandom random(0, static_cast<std::uint64_t>(number), 0);
    const data::Crop crop = data::random_crop(header.width, header.height, options_, random);
    const int reduction = decoder_.reduction_for(std::min(crop.x.step, crop.y.step));
    Differences differences;
    if (reduction == 1) return differences;
    const std::vector<std::uint8_t> scaled = render(bytes, crop, reduction);
    const std::vector<std::uint8_t> full = render(bytes, crop, 1);
    for (std::size_t i = 0; i < full.size(); ++i) {
      const int difference = std::abs(int{scaled[i]} - int{full[i]});
      differences.sum += difference;
      differences.largest = std::max(differences.largest, difference);
    }
    differences.values = static_cast<std::int64_t>(full.size());
    differences.scaled = 1;
    return differences;
  }

 private:
  std::vector<std::uint8_t> render(std::span<const std::byte> jpeg, data::Crop crop, int reduction) {
    const auto size = static_cast<std::size_t>(options_.image_size);
    std::vector<std::uint8_t> image(size * size * 3);
    crop.x = crop.x.reduced(reduction);
    crop.y = crop.y.reduced(reduction);
    decoder_.open(jpeg);
    decoder_.decode(resampler_.prepare(crop), reduction, pixels_);
    resampler_.render(pixels_, crop.flip, image.data());
    return image;
  }

  data::TransformOptions options_;
  data::ImageDecoder decoder_;
  data::Resampler resampler_;
  data::Pixels pixels_;
};

void run(int crops, int image_size, const std::vector<std::string>& files) {
  data::TransformOptions options;
  options.image_size = image_size;
  options.pixels = data::PixelType::u8;
  Renderer renderer(options);
  Differences all;
  std::printf("%-40s %8s %8s %8s %8s\n", "file", "crops", "scaled", "mean", "largest");
  for (const std::string& file : files) {
    const std::string jpeg = content_of(file);
    Differences differences;
    for (int number = 0; number < crops; ++number) differences.add(renderer.compare(jpeg, number));
    differences.print(file.c_str(), crops);
    all.add(differences);
  }
  all.print("all", crops * static_cast<int>(files.size()));
}

}  // namespace
}  // namespace kolo::bench

int main(int argc, char** argv) {
  try {
    if (argc < 4) throw std::runtime_error("usage: scaled_decode CROPS IMAGE_SIZE FILE...");
    kolo::bench::run(std::atoi(argv[1]), std::atoi(argv[2]), {argv + 3, argv + argc});
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "scaled_decode: %s\n", error.what());
    return 1;
  }
}
