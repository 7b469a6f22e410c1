#pragma once
// How several ways of doing the same are timed against each other by many ranks: in turns, under conditions that are
// the same wherever kolo measures. Ranks that pass the same numbers do the same.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

namespace kolo::base {

// Who comes when in a trial: 0 ... count - 1 in an order that changes with `trial`. What one leaves behind, in caches,
// in a shaped link and in who has which core, is not to be met by the same other each time.
[[nodiscard]] inline std::vector<std::size_t> turns_of_trial(std::size_t count, std::uint32_t trial) {
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::mt19937 random(trial);
  for (std::size_t left = count; left > 1; --left) std::swap(order[left - 1], order[random() % left]);
  return order;
}

// Of an operation over a network, with so many bytes. A link that is shaped lets some pass at once after a rest, as it
// has between two steps of training; fewer than 4 KiB do not fill it.
[[nodiscard]] constexpr std::chrono::microseconds rest_before_trial(std::size_t bytes) noexcept {
  return std::chrono::microseconds(bytes < (4U << 10) ? 0 : 1000);
}

}  // namespace kolo::base
