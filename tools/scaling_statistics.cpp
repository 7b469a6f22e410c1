#include "scaling_statistics.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>

namespace kolo::tools {
namespace {

constexpr int kResamples = 2000;
constexpr std::size_t kFewestBlocks = 3;

std::vector<double> all_of(const std::vector<Block>& blocks) {
  std::vector<double> values;
  for (const Block& block : blocks) values.insert(values.end(), block.begin(), block.end());
  return values;
}

// The median of as many blocks as there are, drawn with replacement.
double resampled_median(const std::vector<Block>& blocks, std::mt19937_64& random) {
  std::vector<Block> drawn;
  for (std::size_t i = 0; i < blocks.size(); ++i) drawn.push_back(blocks[random() % blocks.size()]);
  return median(all_of(drawn));
}

Interval interval(double value, bool enough, const std::function<double(std::mt19937_64&)>& resample) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (!enough) return {value, 0, kInfinity};
  std::mt19937_64 random(20200529);  // the same data have the same interval
  std::vector<double> values;
  for (int i = 0; i < kResamples; ++i) values.push_back(resample(random));
  return {value, quantile(values, 0.025), quantile(values, 0.975)};
}

}  // namespace

double quantile(std::vector<double> values, double share) {
  std::ranges::sort(values);
  const double at = share * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return std::lerp(values[below], values[above], at - static_cast<double>(below));
}

double median(std::vector<double> values) { return quantile(std::move(values), 0.5); }

std::vector<Block> blocks_of(std::span<const double> values) {
  std::vector<Block> blocks;
  for (; values.size() >= kBlockSteps; values = values.subspan(kBlockSteps)) {
    blocks.emplace_back(values.begin(), values.begin() + kBlockSteps);
  }
  if (!blocks.empty()) blocks.back().insert(blocks.back().end(), values.begin(), values.end());
  return blocks;
}

Interval median_interval(const std::vector<Block>& blocks) {
  return interval(median(all_of(blocks)), blocks.size() >= kFewestBlocks,
                  [&](std::mt19937_64& random) { return resampled_median(blocks, random); });
}

Interval ratio_interval(const std::vector<Block>& numerator, const std::vector<Block>& denominator) {
  const bool enough = std::min(numerator.size(), denominator.size()) >= kFewestBlocks;
  return interval(median(all_of(numerator)) / median(all_of(denominator)), enough, [&](std::mt19937_64& random) {
    const double above = resampled_median(numerator, random);
    return above / resampled_median(denominator, random);
  });
}

}  // namespace kolo::tools
