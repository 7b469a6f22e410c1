#include "runtime/config_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kolo/error.h"

namespace kolo::runtime {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(ConfigTable, EveryFieldIsSetByItsVariable) {
  const ParsedConfig parsed = parse_config({{"KOLO_BUCKET_BYTES", "2M"},
                                            {"KOLO_LAST_BUCKET_BYTES", "64KiB"},
                                            {"KOLO_TIMEOUT", "30s"},
                                            {"KOLO_STALL_WARNING", "0"},
                                            {"KOLO_MONITOR", "off"},
                                            {"KOLO_MONITOR_TIMEOUT", "100ms"},
                                            {"KOLO_NETWORK", "mpi"},
                                            {"KOLO_INTERFACE", "10.0.0.0/24"},
                                            {"KOLO_TCP_CONGESTION", "reno"},
                                            {"KOLO_DEVICE_REDUCTION", "host"},
                                            {"KOLO_SHARED_DEVICE", "on"},
                                            {"KOLO_NCCL_MAX_CTAS", "4"},
                                            {"KOLO_NCCL_REGISTRATION", "off"},
                                            {"KOLO_STREAM_PRIORITY", "normal"},
                                            {"KOLO_COORDINATOR", "never"},
                                            {"KOLO_RING_SEGMENT_BYTES", "32K"},
                                            {"KOLO_IDLE_BUFFER_BYTES", "64M"},
                                            {"KOLO_SPIN_ITERATIONS", "7"},
                                            {"KOLO_LOG_LEVEL", "debug"}});
  EXPECT_THAT(parsed.warnings, ElementsAre());
  EXPECT_EQ(parsed.config.bucket_bytes, std::size_t{2} << 20);
  EXPECT_EQ(parsed.config.last_bucket_bytes, std::size_t{64} << 10);
  EXPECT_EQ(parsed.config.timeout, std::chrono::seconds(30));
  EXPECT_EQ(parsed.config.stall_warning, std::chrono::seconds(0));
  EXPECT_FALSE(parsed.config.monitor);
  EXPECT_EQ(parsed.config.monitor_timeout, std::chrono::milliseconds(100));
  EXPECT_EQ(parsed.config.network, Network::mpi);
  EXPECT_EQ(parsed.config.interface, "10.0.0.0/24");
  EXPECT_EQ(parsed.config.tcp_congestion, "reno");
  EXPECT_EQ(parsed.config.device_reduction, DeviceReduction::host);
  EXPECT_TRUE(parsed.config.shared_device);
  EXPECT_EQ(parsed.config.nccl_max_ctas, 4);
  EXPECT_FALSE(parsed.config.nccl_registration);
  EXPECT_EQ(parsed.config.stream_priority, StreamPriority::normal);
  EXPECT_EQ(parsed.config.coordinator, CoordinatorMode::never);
  EXPECT_EQ(parsed.config.ring_segment_bytes, std::size_t{32} << 10);
  EXPECT_EQ(parsed.config.idle_buffer_bytes, std::size_t{64} << 20);
  EXPECT_EQ(parsed.config.spin_iterations, 7);
  EXPECT_EQ(parsed.config.log_level, LogLevel::debug);
}

TEST(ConfigTable, WithoutVariablesEveryFieldHasItsDefault) {
  const ParsedConfig parsed = parse_config({{"PATH", "/bin"},
                                            {"KOLO_TORCH_DIR", "/opt/torch"},
                                            {"KOLO_RUN_JOB", "j"},
                                            {"KOLO_RUN_FAILURE", "7:1"},
                                            {"KOLO_RUN_COLUMNS", "76"}});
  EXPECT_THAT(parsed.warnings, ElementsAre());
  for (const ConfigRow& row : config_rows()) EXPECT_EQ(row.print(parsed.config), row.print(Config{})) << row.name;
}

TEST(ConfigTable, PrintedDefaultsAreAccepted) {
  for (const ConfigVariable& variable : describe(Config{})) {
    EXPECT_NO_THROW((void)parse_config({{variable.name, variable.default_value}})) << variable.name;
    EXPECT_EQ(variable.value, variable.default_value);
    EXPECT_FALSE(variable.meaning.empty());
  }
}

TEST(ConfigTable, BucketBytesAutoIsZero) {
  EXPECT_EQ(parse_config({{"KOLO_BUCKET_BYTES", "auto"}}).config.bucket_bytes, 0U);
}

TEST(ConfigTable, FieldSetInCodeIsHeldToSameRange) {
  EXPECT_NO_THROW(check({}));
  const auto complaint = [](auto change) -> std::string {
    Config config;
    change(config);
    try {
      check(config);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "no error";
  };
  using std::chrono::milliseconds;
  EXPECT_THAT(complaint([](Config& c) { c.timeout = milliseconds(0); }),
              AllOf(HasSubstr("KOLO_TIMEOUT='0'"), HasSubstr("allowed: 10ms to 168h")));
  EXPECT_THAT(complaint([](Config& c) { c.timeout = milliseconds::max(); }), HasSubstr("KOLO_TIMEOUT"));
  EXPECT_THAT(complaint([](Config& c) { c.bucket_bytes = 1; }), HasSubstr("KOLO_BUCKET_BYTES='1'"));
  EXPECT_THAT(complaint([](Config& c) { c.interface = "a b"; }), HasSubstr("KOLO_INTERFACE='a b'"));
}

TEST(ConfigTable, DescribeShowsEffectiveValue) {
  Config config;
  config.timeout = std::chrono::milliseconds(1500);
  config.coordinator = CoordinatorMode::always;
  std::map<std::string, std::string> values;
  for (const ConfigVariable& variable : describe(config)) values[variable.name] = variable.value;
  EXPECT_EQ(values["KOLO_TIMEOUT"], "1500ms");
  EXPECT_EQ(values["KOLO_COORDINATOR"], "always");
}

TEST(ConfigTable, InvalidValueIsUsageErrorThatNamesVariableValueAndRange) {
  const std::map<std::string, std::string> bad = {{"KOLO_BUCKET_BYTES", "16X"},
                                                  {"KOLO_LAST_BUCKET_BYTES", "0"},
                                                  {"KOLO_TIMEOUT", "30"},
                                                  {"KOLO_STALL_WARNING", "-1s"},
                                                  {"KOLO_MONITOR", "yes"},
                                                  {"KOLO_MONITOR_TIMEOUT", "99ms"},
                                                  {"KOLO_NETWORK", "udp"},
                                                  {"KOLO_INTERFACE", "a b"},
                                                  {"KOLO_COORDINATOR", "yes"},
                                                  {"KOLO_RING_SEGMENT_BYTES", "2G"},
                                                  {"KOLO_SPIN_ITERATIONS", "-1"},
                                                  {"KOLO_LOG_LEVEL", "WARN"},
                                                  {"KOLO_SHARED_DEVICE", "1"},
                                                  {"KOLO_NCCL_MAX_CTAS", "65"},
                                                  {"KOLO_DEVICE_REDUCTION", "mpi"},
                                                  {"KOLO_NCCL_REGISTRATION", "buffer"},
                                                  {"KOLO_STREAM_PRIORITY", "-5"},
                                                  {"KOLO_TCP_CONGESTION", "c c"},
                                                  {"KOLO_SYNC", "no"},
                                                  {"KOLO_IDLE_BUFFER_BYTES", "-1"},
                                                  {"KOLO_OVERLAP", "1"},
                                                  {"KOLO_STEP_LOG", "folder/"},
                                                  {"KOLO_ALGORITHM", "mpi"},
                                                  {"KOLO_TIMELINE", "folder/"}};
  EXPECT_EQ(bad.size(), config_rows().size());
  for (const ConfigRow& row : config_rows()) {
    for (const std::string& value : {std::string(), bad.at(std::string(row.name))}) {
      try {
        (void)parse_config({{std::string(row.name), value}});
        ADD_FAILURE() << row.name << " took '" << value << "'";
      } catch (const UsageError& error) {
        EXPECT_THAT(error.what(), AllOf(HasSubstr(std::string(row.name)), HasSubstr("'" + value + "'"),
                                        HasSubstr(std::string(row.range))));
      }
    }
  }
}

TEST(ConfigTable, DurationWithoutUnitIsErrorThatSuggestsUnits) {
  const auto error_of = [](const char* name, const char* value) -> std::string {
    try {
      (void)parse_config({{name, value}});
    } catch (const UsageError& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_THAT(error_of("KOLO_TIMEOUT", "60"), HasSubstr("it needs a unit: 60s or 60ms"));
  EXPECT_THAT(error_of("KOLO_TIMEOUT", "soon"), Not(HasSubstr("unit")));
  EXPECT_THAT(error_of("KOLO_NCCL_MAX_CTAS", "65"), Not(HasSubstr("unit")));
}

TEST(ConfigTable, UnknownVariableIsWarningWithNearestName) {
  const ParsedConfig parsed = parse_config({{"KOLO_BUKET_BYTES", "1M"}});
  EXPECT_THAT(parsed.warnings, ElementsAre(AllOf(HasSubstr("KOLO_BUKET_BYTES"), HasSubstr("KOLO_BUCKET_BYTES"))));
}

TEST(ConfigTable, UnknownVariableUnlikeAnyOtherGetsNoSuggestion) {
  const ParsedConfig parsed = parse_config({{"KOLO_FOO", "1"}, {"KOLO_", "1"}, {"KOLO_GRADIENT_STYLE", "1"}});
  EXPECT_THAT(parsed.warnings, testing::Each(AllOf(HasSubstr("is unknown"), Not(HasSubstr("nearest")))));
  EXPECT_EQ(parsed.warnings.size(), 3U);
}

}  // namespace
}  // namespace kolo::runtime
