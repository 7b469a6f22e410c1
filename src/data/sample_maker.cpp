#include "sample_maker.h"

#include <algorithm>

#include "random.h"

namespace kolo::data {

SampleMaker::SampleMaker(const TransformOptions& options, std::uint64_t seed)
    : options_(options), seed_(seed), resampler_(options) {}

std::string SampleMaker::make(const Dataset& dataset, std::int64_t index, std::uint64_t epoch, void* image) {
  const ImageHeader header = decoder_.open(dataset.bytes(index, file_));
  SampleRandom random(seed_, epoch, static_cast<std::uint64_t>(index));
  const bool training = options_.augment == Augment::train;
  Crop crop = training ? random_crop(header.width, header.height, options_, random)
                       : central_crop(header.width, header.height, options_.image_size);
  // Training: as small as possible while there is at least one decoded pixel for every output pixel. Evaluation: full
  // size, as torchvision decodes.
  const int reduction = training ? decoder_.reduction_for(std::min(crop.x.step, crop.y.step)) : 1;
  crop.x = crop.x.reduced(reduction);
  crop.y = crop.y.reduced(reduction);
  decoder_.decode(resampler_.prepare(crop), reduction, pixels_);
  resampler_.render(pixels_, crop.flip, image);
  return header.converted_from;
}

}  // namespace kolo::data
