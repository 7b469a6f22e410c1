#pragma once
// A program that tries seeds: PROGRAM FROM COUNT. It ends at the first seed that fails, which it names on a line of its
// own, "FAILED seed N"; else it says how many it tried. Exit status 0, or 1 after a failure, or 2 for wrong arguments.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace kolo::soak {

template <class Try>
int try_seeds(int argc, char** argv, Try try_seed) {
  testing::InitGoogleTest(&argc, argv);
  if (argc != 3) {
    std::fprintf(stderr, "%s FROM COUNT\n", argv[0]);
    return 2;
  }
  const auto from = static_cast<std::uint32_t>(std::strtoul(argv[1], nullptr, 10));
  const auto count = static_cast<std::uint32_t>(std::strtoul(argv[2], nullptr, 10));
  for (std::uint32_t seed = from; seed - from < count; ++seed) {
    try_seed(seed);
    if (testing::Test::HasFailure()) {
      std::printf("FAILED seed %u\n", seed);
      return 1;
    }
  }
  std::printf("%u seeds from %u\n", count, from);
  return 0;
}

}  // namespace kolo::soak
