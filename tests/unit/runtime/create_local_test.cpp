// Context::create_local(): the ranks and hosts that each form of its first argument selects.
#include <gtest/gtest.h>

#include <cstddef>
#include <initializer_list>
#include <type_traits>
#include <vector>

#include "kolo/context.h"
#include "kolo/error.h"

namespace kolo {
namespace {

using Contexts = std::vector<std::unique_ptr<Context>>;

// The host of each rank.
std::vector<int> hosts_of(const Contexts& contexts) {
  std::vector<int> hosts;
  for (const auto& context : contexts) hosts.push_back(context->placement().cross_rank);
  return hosts;
}

TEST(CreateLocal, ListInBracesGivesTheHostOfEachRank) {
  EXPECT_EQ(hosts_of(Context::create_local({0})), (std::vector<int>{0}));
  EXPECT_EQ(hosts_of(Context::create_local({1})), (std::vector<int>{0}));
  EXPECT_EQ(hosts_of(Context::create_local({2})), (std::vector<int>{0}));
  EXPECT_EQ(hosts_of(Context::create_local({0, 0})), (std::vector<int>{0, 0}));
  EXPECT_EQ(hosts_of(Context::create_local({0, 1, 0})), (std::vector<int>{0, 1, 0}));
  const short host = 3;
  EXPECT_EQ(hosts_of(Context::create_local({host})), (std::vector<int>{0}));
  const std::initializer_list<int> list{4, 5};
  EXPECT_EQ(hosts_of(Context::create_local(list)), (std::vector<int>{0, 1}));
}

TEST(CreateLocal, ListInBracesWithConfigGivesTheHostOfEachRank) {
  Config config;
  config.log_level = LogLevel::error;
  const Contexts one = Context::create_local({2}, config);
  ASSERT_EQ(one.size(), 1U);
  EXPECT_EQ(one.front()->config().log_level, LogLevel::error);
  EXPECT_EQ(hosts_of(Context::create_local({0}, config)), (std::vector<int>{0}));
  EXPECT_EQ(hosts_of(Context::create_local({0, 1}, config)), (std::vector<int>{0, 1}));
  EXPECT_EQ(hosts_of(Context::create_local({0}, {})), (std::vector<int>{0}));
}

TEST(CreateLocal, EmptyListIsUsageError) {
  EXPECT_THROW(Context::create_local({}), UsageError);
  EXPECT_THROW(Context::create_local({}, Config{}), UsageError);
}

TEST(CreateLocal, NumberOfAnyIntegralTypeIsTheNumberOfRanks) {
  enum Few { kTwo = 2 };
  const Config config;
  EXPECT_EQ(Context::create_local(2).size(), 2U);
  EXPECT_EQ(Context::create_local(std::size_t{2}, config).size(), 2U);
  EXPECT_EQ(Context::create_local(static_cast<short>(2)).size(), 2U);
  EXPECT_EQ(Context::create_local(kTwo).size(), 2U);
  EXPECT_EQ(Context::create_local(std::integral_constant<int, 2>{}).size(), 2U);
  EXPECT_THROW(Context::create_local(0), UsageError);
  EXPECT_THROW(Context::create_local(-1), UsageError);
}

}  // namespace
}  // namespace kolo
