#include "base/hash.h"

#include <gtest/gtest.h>

namespace kolo::base {
namespace {

// Published values of XXH3: what peers of another version must agree on.
TEST(Hash, KnownValues) {
  EXPECT_EQ(hash64(std::string_view{}), 0x2d06800538d394c2ull);
  EXPECT_EQ(hash128(std::string_view{}), (Hash128{0x99aa06d3014798d8ull, 0x6001c324468d497full}));
}

TEST(Hash, DependsOnBytesAndSeed) {
  EXPECT_NE(hash64("plan a"), hash64("plan b"));
  EXPECT_NE(hash64("plan a", 1), hash64("plan a", 2));
  EXPECT_NE(hash128("plan a"), hash128("plan b"));
  EXPECT_EQ(hash128("plan a", 7), hash128("plan a", 7));
}

}  // namespace
}  // namespace kolo::base
