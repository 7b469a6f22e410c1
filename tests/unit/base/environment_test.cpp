#include "base/environment.h"

#include <gtest/gtest.h>

namespace kolo::base {
namespace {

// What every process has.
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

TEST(Environment, IsSetAndUnset) {
  const std::string name = "KOLO_TEST_ENVIRONMENT";
  set_environment(name, "a=b");
  EXPECT_EQ(get_environment(name), "a=b");
  set_environment(name, "");
  EXPECT_EQ(get_environment(name), "");
  EXPECT_EQ(get_environment_with_prefix("").at(name), "");
  unset_environment(name);
  EXPECT_FALSE(get_environment(name).has_value());
  EXPECT_FALSE(get_environment_with_prefix("").contains(name));
}

}  // namespace
}  // namespace kolo::base
