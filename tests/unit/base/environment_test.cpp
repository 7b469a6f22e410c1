#include "base/environment.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

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

// Growing the environment moves it: whoever reads without a lock reads freed memory.
TEST(Environment, IsReadWhileOthersSetIt) {
  const auto name = [](int thread, int i) {
    return "KOLO_TEST_ENVIRONMENT_" + std::to_string(thread) + "_" + std::to_string(i);
  };
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&name, thread] {
      for (int i = 0; i < 50; ++i) {
        set_environment(name(thread, i), std::to_string(i));
        EXPECT_EQ(get_environment(name(thread, i)), std::to_string(i));
        EXPECT_TRUE(get_environment_with_prefix("").contains("PATH"));
      }
      for (int i = 0; i < 50; ++i) unset_environment(name(thread, i));
    });
  }
  for (auto& thread : threads) thread.join();
}

}  // namespace
}  // namespace kolo::base
