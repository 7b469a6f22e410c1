#include <gmock/gmock.h>

#include <functional>

#include "cluster/make.h"
#include "kolo/error.h"
#include "runtime/config_table.h"
#include "support/thread_ranks.h"

namespace kolo::runtime {
namespace {

// The error on each of three ranks; empty if they agree.
std::vector<std::string> told(const std::function<Config(int rank)>& config_of) {
  auto bootstraps = cluster::make_inproc_bootstrap(3);
  std::vector<std::string> texts(3);
  test::run_ranks(3, [&](int rank) {
    const auto at = static_cast<std::size_t>(rank);
    try {
      agree_on_settings(*bootstraps[at], config_of(rank));
    } catch (const MismatchError& error) {
      texts[at] = error.what();
    }
  });
  return texts;
}

TEST(AgreeOnSettings, EqualSettingsAreAccepted) {
  EXPECT_THAT(told([](int) { return Config{}; }), testing::Each(testing::IsEmpty()));
}

TEST(AgreeOnSettings, SettingsThatMayDifferAreNotCompared) {
  EXPECT_THAT(told([](int rank) {
                Config config;
                config.spin_iterations = rank;
                config.timeout = std::chrono::seconds(10 + rank);
                config.log_level = rank == 1 ? LogLevel::debug : LogLevel::error;
                config.coordinator = rank == 1 ? CoordinatorMode::always : CoordinatorMode::never;
                return config;
              }),
              testing::Each(testing::IsEmpty()));
}

TEST(AgreeOnSettings, DifferenceIsMismatchErrorOnEveryRankWithRankAndValues) {
  EXPECT_THAT(
      told([](int rank) {
        Config config;
        if (rank == 2) config.last_bucket_bytes = 300 * 1024;
        return config;
      }),
      testing::Each("KOLO_LAST_BUCKET_BYTES is 1M on rank 0 and 300K on rank 2. Set the same value on all ranks "
                    "(mpirun -x KOLO_LAST_BUCKET_BYTES)"));
}

TEST(AgreeOnSettings, EachSharedSettingIsCompared) {
  const auto differs = [](const char* name, const char* value) {
    return told([&](int rank) {
      return parse_config(rank == 1 ? std::map<std::string, std::string>{{name, value}}
                                    : std::map<std::string, std::string>{})
          .config;
    });
  };
  for (const auto& [name, value] : std::map<const char*, const char*>{{"KOLO_BUCKET_BYTES", "4M"},
                                                                      {"KOLO_LAST_BUCKET_BYTES", "4K"},
                                                                      {"KOLO_IDLE_BUFFER_BYTES", "1G"},
                                                                      {"KOLO_MONITOR", "off"},
                                                                      {"KOLO_RING_SEGMENT_BYTES", "16K"},
                                                                      {"KOLO_NCCL_MAX_CTAS", "4"},
                                                                      {"KOLO_NCCL_REGISTRATION", "off"}}) {
    EXPECT_THAT(differs(name, value), testing::Each(testing::HasSubstr(std::string(name) + " is "))) << name;
  }
}

}  // namespace
}  // namespace kolo::runtime
