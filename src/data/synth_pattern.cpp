#include "synth_pattern.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "random.h"

namespace kolo::data {
namespace {

using Colour = std::array<float, 3>;

constexpr int kShapes = 4;
constexpr int kNoiseValues = 1024;

// hue in turns; value 0..1
Colour from_hue(double hue, double saturation, double value) {
  Colour colour{};
  for (std::size_t c = 0; c < 3; ++c) {
    const double phase = hue + static_cast<double>(c) / 3.0;
    const double wave = 0.5 + 0.5 * std::cos(2 * std::numbers::pi * phase);
    colour[c] = static_cast<float>(255.0 * value * (1.0 - saturation + saturation * wave));
  }
  return colour;
}

// A class's own constants: neighbours in number differ in all of them.
struct Style {
  double hue;
  double angle;   // of the stripes
  double period;  // relative to the shorter side
  int shape;

  Style(std::int64_t label, std::uint64_t seed) {
    SampleRandom random(seed, 0x5717E5, static_cast<std::uint64_t>(label));
    hue = std::fmod(static_cast<double>(label) * std::numbers::phi, 1.0);
    angle = std::numbers::pi * std::fmod(static_cast<double>(label) * std::numbers::sqrt2, 1.0);
    period = random.uniform(0.06, 0.25);
    shape = static_cast<int>(label % kShapes);
  }
};

// Where this image's shape is, and its light.
struct Scene {
  double x, y, radius, phase, light;
  float noise;
  Colour front, back_a, back_b;
};

Scene make_scene(const Style& style, const Pattern& pattern, SampleRandom& random) {
  const double shorter = std::min(pattern.width, pattern.height);
  Scene scene{};
  scene.radius = shorter * random.uniform(0.22, 0.36);
  scene.x = pattern.width * random.uniform(0.35, 0.65);
  scene.y = pattern.height * random.uniform(0.35, 0.65);
  scene.phase = random.uniform(0, 2 * std::numbers::pi);
  scene.light = random.uniform(0.8, 1.0);
  scene.noise = static_cast<float>(random.uniform(12, 36));
  const double drift = random.uniform(-0.02, 0.02);
  scene.front = from_hue(style.hue + drift, 0.85, scene.light);
  // Related hues behind, so that colour alone tells a few classes apart; for many it takes stripes and shape.
  scene.back_a = from_hue(style.hue + 0.1 + drift, 0.6, 0.75 * scene.light);
  scene.back_b = from_hue(style.hue - 0.1 + drift, 0.6, 0.45 * scene.light);
  return scene;
}

// dx, dy in radii
bool inside(int shape, double dx, double dy) {
  const double distance = std::sqrt(dx * dx + dy * dy);
  switch (shape) {
    case 0:
      return distance < 1.0;  // disc
    case 1:
      return std::max(std::abs(dx), std::abs(dy)) < 0.85;  // square
    case 2:
      return dy < 0.8 && dy > -1.0 && std::abs(dx) < 0.55 * (dy + 1.0);  // triangle
    default:
      return distance < 1.05 && distance > 0.6;  // ring
  }
}

}  // namespace

std::vector<std::uint8_t> draw_pattern(const Pattern& pattern) {
  const Style style(pattern.label, pattern.seed);
  SampleRandom random(pattern.seed, 0x1A6E + static_cast<std::uint64_t>(pattern.label), pattern.number);
  const Scene scene = make_scene(style, pattern, random);
  std::array<float, kNoiseValues> noise{};  // drawn once and looked up: normal numbers are the costly part
  for (float& value : noise) value = scene.noise * static_cast<float>(random.normal());

  const double wave = 2 * std::numbers::pi / (style.period * std::min(pattern.width, pattern.height));
  const double wave_x = wave * std::cos(style.angle);
  const double wave_y = wave * std::sin(style.angle);
  std::vector<std::uint8_t> rgb(static_cast<std::size_t>(pattern.width) * static_cast<std::size_t>(pattern.height) * 3);
  std::uint8_t* out = rgb.data();
  for (int y = 0; y < pattern.height; ++y) {
    for (int x = 0; x < pattern.width; ++x) {
      const bool front = inside(style.shape, (x - scene.x) / scene.radius, (y - scene.y) / scene.radius);
      const bool stripe = std::sin(x * wave_x + y * wave_y + scene.phase) > 0;
      const Colour& colour = front ? scene.front : stripe ? scene.back_a : scene.back_b;
      const std::uint64_t dice = random.next();
      for (unsigned c = 0; c < 3; ++c) {
        const float value = colour[c] + noise[(dice >> (10 * c)) % kNoiseValues];
        *out++ = static_cast<std::uint8_t>(std::clamp(value, 0.0F, 255.0F));
      }
    }
  }
  return rgb;
}

}  // namespace kolo::data
