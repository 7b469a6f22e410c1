#include "base/environment.h"

#include <gtest/gtest.h>

namespace kolo::base {
namespace {

// Only what every process has, so that nothing needs to be set.
TEST(Environment, ReadsOneAndAll) {
  const auto path = get_environment("PATH");
  ASSERT_TRUE(path.has_value());
  const auto all = get_environment_with_prefix("PA");
  ASSERT_TRUE(all.contains("PATH"));
  EXPECT_EQ(all.at("PATH"), *path);
  for (const auto& [name, value] : all) EXPECT_TRUE(name.starts_with("PA")) << name;
}

TEST(Environment, UnsetIsNothing) {
  EXPECT_FALSE(get_environment("KOLO_TEST_NOBODY_SETS_THIS").has_value());
  EXPECT_TRUE(get_environment_with_prefix("KOLO_TEST_NOBODY_SETS_THIS").empty());
}

}  // namespace
}  // namespace kolo::base
