#pragma once
// Windows of JPEGs with every sampling factor, compared with whole decodes by plain libjpeg.
#include <vector>

#include "data/image.h"
#include "make_images.h"

namespace kolo::test {

// Grey, YCbCr and YCCK with factors up to `largest`: of the first component, of chroma, and mixed ones, as far as
// libjpeg decodes them.
std::vector<std::vector<Sampling>> all_samplings(int largest);

// Windows at the borders and in the middle, of odd and even places and sizes. `every`: each horizontal place with each
// vertical one; else a few pairs.
enum class Pairs { few, every };

// The largest difference between the pixels of a window and the same part of a whole image.
int worst_difference(const data::Pixels& pixels, const Rgb& whole, const data::Window& window);

// Adds a test failure for each scale at which a window differs from the same window of the whole image.
void expect_windows_of_the_whole(const std::vector<Sampling>& factors, int width, int height, Scans scans, Pairs pairs);

}  // namespace kolo::test
