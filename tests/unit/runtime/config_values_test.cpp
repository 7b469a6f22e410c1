#include "runtime/config_values.h"

#include <gtest/gtest.h>

namespace kolo::runtime {
namespace {

using std::chrono::milliseconds;

TEST(ConfigValues, BytesAreParsedWithUnitsOrRefused) {
  EXPECT_EQ(parse_bytes("4096"), 4096u);
  EXPECT_EQ(parse_bytes("4096B"), 4096u);
  EXPECT_EQ(parse_bytes("60K"), 61440u);
  EXPECT_EQ(parse_bytes("16M"), 16u << 20);
  EXPECT_EQ(parse_bytes("16MiB"), 16u << 20);
  EXPECT_EQ(parse_bytes("16mb"), 16u << 20);
  EXPECT_EQ(parse_bytes("1GiB"), 1u << 30);
  EXPECT_EQ(parse_bytes("0"), 0u);
  for (const char* bad :
       {"", "M", "-1", "+1", " 1", "1 ", "1.5M", "1T", "1MM", "0x10", "99999999999999999999", "9999999999999G"}) {
    EXPECT_FALSE(parse_bytes(bad).has_value()) << bad;
  }
}

TEST(ConfigValues, PrintedBytesAreReadBack) {
  for (const std::size_t bytes : {0ul, 1ul, 1023ul, 1024ul, 61440ul, 1ul << 20, 3ul << 30, (1ul << 30) + 1}) {
    EXPECT_EQ(parse_bytes(print_bytes(bytes)), bytes);
  }
  EXPECT_EQ(print_bytes(std::size_t{16} << 20), "16M");
}

TEST(ConfigValues, DurationsAreParsedWithUnitsOrRefused) {
  EXPECT_EQ(parse_duration("500ms"), milliseconds(500));
  EXPECT_EQ(parse_duration("30s"), milliseconds(30000));
  EXPECT_EQ(parse_duration("10m"), milliseconds(600000));
  EXPECT_EQ(parse_duration("2h"), milliseconds(7200000));
  EXPECT_EQ(parse_duration("0"), milliseconds(0));
  for (const char* bad : {"", "30", "s", "-1s", "1.5s", "1d", "1 s", "9999999999999999999s", "9223372036854775807h"}) {
    EXPECT_FALSE(parse_duration(bad).has_value()) << bad;
  }
  for (const long long count : {0, 1, 999, 1000, 600000}) {
    EXPECT_EQ(parse_duration(print_duration(milliseconds(count))), milliseconds(count));
  }
}

TEST(ConfigValues, IntegersAreParsedOrRefused) {
  EXPECT_EQ(parse_integer("2000"), 2000);
  EXPECT_EQ(parse_integer("-3"), -3);
  for (const char* bad : {"", "x", "1x", "1.0", " 1", "99999999999999999999"}) {
    EXPECT_FALSE(parse_integer(bad).has_value()) << bad;
  }
}

}  // namespace
}  // namespace kolo::runtime
