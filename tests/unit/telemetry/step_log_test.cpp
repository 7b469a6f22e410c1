#include "telemetry/step_log.h"

#include <gmock/gmock.h>

#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "kolo/error.h"
#include "support/temporary_folder.h"

namespace kolo::telemetry {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr std::int64_t kSecond = 1'000'000'000;

std::vector<std::string> lines_of(const std::string& path) {
  std::vector<std::string> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

// The digits of a field of a line, without a way through floating point: "1.250" is 1250.
std::int64_t nanoseconds_of(const std::string& line, const std::string& field) {
  const std::string key = "\"" + field + "\":";
  const auto begin = line.find(key);
  if (begin == std::string::npos) {
    ADD_FAILURE() << "no " << field << " in " << line;
    return 0;
  }
  std::string text = line.substr(begin + key.size());
  text.resize(text.find_first_of(",}"));
  const auto point = text.find('.');
  EXPECT_EQ(text.size() - point, 4U) << field << " has three decimals: " << text;
  return std::stoll(text.erase(point, 1));
}

RunFacts facts_of_rank_1() {
  RunFacts facts;
  facts.rank = 1;
  facts.size = 4;
  facts.host = "node7";
  facts.clock_offset_ns = 5'000'000'250;
  facts.clock_error_ns = 1500;
  facts.facts["KOLO_SYNC"] = "off";
  return facts;
}

// With sums that are wrong if each field is rounded to microseconds.
StepTimes times_from(std::int64_t start) {
  StepTimes times;
  times.start_ns = start;
  times.before_first_gradient_ns = 1'000'000'501;
  times.backward_ns = 499;
  times.exposed_ns = 7'000'001;
  times.optimizer_ns = 999;
  times.other_ns = 2'000;
  times.step_ns = 1'007'004'000;
  times.communication_ns = 8'123'456;
  times.synchronize_ns = 1'000'001'001;
  times.reductions = 3;
  times.reduced_bytes = 123'456'789'012;
  return times;
}

// A step log in a folder of its own, and what it warned of.
struct Written {
  StepLog::Warn warn() {
    return [this](const std::string& line) { warnings.push_back(line); };
  }
  test::TemporaryFolder folder;
  std::string path = (folder.path() / "steps.rank1.jsonl").string();
  std::vector<std::string> warnings;
};

TEST(StepLog, HeadAndStepsAreLinesOfJson) {
  Written written;
  {
    StepLog log(written.path, facts_of_rank_1(), written.warn());
    log.describe("libtorch", "2.11.0");
    log.write(1, times_from(6 * kSecond));
    log.write(2, times_from(8 * kSecond));
  }
  const auto lines = lines_of(written.path);
  ASSERT_THAT(lines, SizeIs(3));
  const json head = json::parse(lines[0]);
  EXPECT_EQ(head.at("kind"), "step_log");
  EXPECT_EQ(head.at("rank"), 1);
  EXPECT_EQ(head.at("size"), 4);
  EXPECT_EQ(head.at("host"), "node7");
  EXPECT_EQ(head.at("clock_offset_us"), 5'000'000.250);
  EXPECT_EQ(head.at("clock_error_us"), 1.5);
  EXPECT_EQ(head.at("facts"), (json{{"KOLO_SYNC", "off"}, {"libtorch", "2.11.0"}}));
  for (std::size_t i = 1; i < lines.size(); ++i) {
    const json step = json::parse(lines[i]);
    EXPECT_EQ(step.at("kind"), "step");
    EXPECT_EQ(step.at("step"), i);
    EXPECT_EQ(step.at("reductions"), 3);
    EXPECT_EQ(step.at("reduced_bytes"), 123'456'789'012);
    EXPECT_EQ(step.at("communication_us"), 8123.456);
    EXPECT_EQ(step.at("synchronize_us"), 1'000'001.001);
  }
  EXPECT_THAT(written.warnings, IsEmpty());
}

TEST(StepLog, PrintedFieldsAddUpToPrintedStepExactly) {
  Written written;
  { StepLog(written.path, facts_of_rank_1(), written.warn()).write(1, times_from(6 * kSecond)); }
  const std::string line = lines_of(written.path).at(1);
  std::int64_t sum = 0;
  for (const auto* field : {"before_first_gradient_us", "backward_us", "exposed_us", "optimizer_us", "other_us"}) {
    sum += nanoseconds_of(line, field);
  }
  EXPECT_EQ(sum, 1'007'004'000);
  EXPECT_EQ(nanoseconds_of(line, "step_us"), 1'007'004'000);
}

TEST(StepLog, StartIsInTheClockOfRank0) {
  Written written;
  {
    StepLog log(written.path, facts_of_rank_1(), written.warn());
    log.write(1, times_from(6 * kSecond));
    log.write(2, times_from(5 * kSecond));  // before rank 0's clock began
  }
  const auto lines = lines_of(written.path);
  EXPECT_EQ(nanoseconds_of(lines.at(1), "start_us"), 999'999'750);
  EXPECT_EQ(nanoseconds_of(lines.at(2), "start_us"), -250);
}

TEST(StepLog, LogWithoutStepHasHead) {
  Written written;
  { const StepLog log(written.path, facts_of_rank_1(), written.warn()); }
  const auto lines = lines_of(written.path);
  ASSERT_THAT(lines, SizeIs(1));
  EXPECT_EQ(json::parse(lines[0]).at("rank"), 1);
}

TEST(StepLog, FileThatExistsIsAppendedTo) {
  Written written;
  written.folder.write("steps.rank1.jsonl", "an older line\n");
  { StepLog(written.path, facts_of_rank_1(), written.warn()).write(1, times_from(6 * kSecond)); }
  const auto lines = lines_of(written.path);
  ASSERT_THAT(lines, SizeIs(3));
  EXPECT_EQ(lines[0], "an older line");
  EXPECT_EQ(json::parse(lines[1]).at("kind"), "step_log");
  EXPECT_EQ(json::parse(lines[2]).at("kind"), "step");
}

// So that a program that is killed leaves what it has recorded until shortly before.
TEST(StepLog, FileOfAnotherContextIsUsageErrorUntilThatContextEnds) {
  Written written;
  auto first = std::make_unique<StepLog>(written.path, facts_of_rank_1(), written.warn());
  try {
    const StepLog second(written.path, facts_of_rank_1(), written.warn());
    FAIL() << "no error";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("another Context writes to " + written.path));
  }
  first.reset();
  const StepLog third(written.path, facts_of_rank_1(), written.warn());
}

TEST(StepLog, LinesAreWrittenOnceTheyAreATenthOfASecondOld) {
  Written written;
  StepLog log(written.path, facts_of_rank_1(), written.warn());
  StepTimes times;
  times.step_ns = 60'000'000;
  times.start_ns = kSecond;
  log.write(1, times);
  EXPECT_THAT(lines_of(written.path), SizeIs(2));
  times.start_ns += times.step_ns;
  log.write(2, times);
  EXPECT_THAT(lines_of(written.path), SizeIs(2)) << "60 ms after the last write";
  times.start_ns += times.step_ns;
  log.write(3, times);
  EXPECT_THAT(lines_of(written.path), SizeIs(4));
}

TEST(StepLog, TextThatIsNotUtf8OrHasQuotesIsValidJson) {
  Written written;
  RunFacts facts = facts_of_rank_1();
  facts.host = "no\"de\\\n\xff";
  facts.facts["na\"me\xfe"] = "va\"lue\xc3";
  { const StepLog log(written.path, facts, written.warn()); }
  const auto lines = lines_of(written.path);
  ASSERT_THAT(lines, SizeIs(1));
  const json head = json::parse(lines[0]);
  EXPECT_EQ(head.at("host"), "no\"de\\\n\xEF\xBF\xBD");
  EXPECT_EQ(head.at("facts").at("na\"me\xEF\xBF\xBD"), "va\"lue\xEF\xBF\xBD");
}

TEST(StepLog, FileThatCannotBeOpenedIsUsageErrorWithPathAndReason) {
  const test::TemporaryFolder folder;
  const std::string path = (folder.path() / "missing" / "steps.rank0.jsonl").string();
  try {
    const StepLog log(path, {}, {});
    FAIL() << "no error";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("step log"), HasSubstr(path), HasSubstr(std::strerror(ENOENT))));
  }
}

TEST(StepLog, FullDiskIsOneWarningAndLaterStepsGoOn) {
  Written written;
  {
    StepLog log("/dev/full", facts_of_rank_1(), written.warn());
    for (int step = 1; step <= 3; ++step) {
      log.write(static_cast<std::uint64_t>(step), times_from(step * kSecond));
      log.flush();
    }
  }
  EXPECT_THAT(written.warnings, ElementsAre(AllOf(HasSubstr("step log"), HasSubstr("/dev/full"),
                                                  HasSubstr(std::strerror(ENOSPC)), HasSubstr("KOLO_STEP_LOG"))));
}

}  // namespace
}  // namespace kolo::telemetry
