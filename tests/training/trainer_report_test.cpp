// The file of --json: every line is complete, and a failed write is told at once.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/resource.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

#include "kolo/checkpoint.h"
#include "kolo/error.h"
#include "report.h"
#include "support/temporary_folder.h"

namespace imagenet {
namespace {

namespace fs = std::filesystem;
using kolo::test::TemporaryFolder;
using testing::HasSubstr;

std::string text_of(const fs::path& file) {
  const auto content = kolo::checkpoint::read_file(file);
  return {reinterpret_cast<const char*>(content.data()), content.size()};
}

TEST(JsonLines, IncompleteLastLineIsRemovedBeforeAppending) {
  const TemporaryFolder folder;
  const std::string line = "{\"a\":1}\n", added = "{\"b\":2}\n";
  const std::string huge = "{\"a\":\"" + std::string(200'000, 'x');
  for (const auto& [before, after] :
       std::vector<std::pair<std::string, std::string>>{{"", ""},
                                                        {line, line},
                                                        {"{", ""},
                                                        {"{\"a\":1", ""},
                                                        {line + "{\"a\":", line},
                                                        {line + "{\"a\":1}", line + line},
                                                        {huge, ""},
                                                        {line + huge, line},
                                                        {huge + "\"}\n{", huge + "\"}\n"}}) {
    const fs::path file = folder.write("lines", before);
    EXPECT_EQ(JsonLines(file.string(), /*append=*/true).write({{"b", 2}}), "");
    EXPECT_EQ(text_of(file), after + added) << before.substr(0, 40);
  }
}

TEST(JsonLines, NewFileReplacesTheOldOne) {
  const TemporaryFolder folder;
  const fs::path file = folder.write("lines", "old");
  EXPECT_EQ(JsonLines(file.string(), /*append=*/false).write({{"b", 2}}), "");
  EXPECT_EQ(text_of(file), "{\"b\":2}\n");
}

TEST(JsonLines, OldFileStaysUntilTheFirstLine) {
  const TemporaryFolder folder;
  const fs::path file = folder.write("lines", "old");
  { const JsonLines unused(file.string(), /*append=*/false); }
  EXPECT_EQ(text_of(file), "old");
}

TEST(JsonLines, InvalidUtf8IsWrittenWithReplacedBytes) {
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "lines").string();
  EXPECT_EQ(JsonLines(file, false).write({{"data", "d\xe9/\xc3\xa9"}}), "");
  EXPECT_EQ(text_of(file), "{\"data\":\"d\xef\xbf\xbd/\xc3\xa9\"}\n");
}

TEST(JsonLines, FileThatCannotBeOpenedIsUsageError) {
  EXPECT_THROW(JsonLines("/nowhere/at/all", false), kolo::UsageError);
}

// While the limit holds, a write ends in the middle of a line, as on a full disk.
TEST(JsonLines, LineThatDoesNotFitIsRemovedAndLaterLinesAreComplete) {
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "lines").string();
  JsonLines lines(file, false);
  EXPECT_EQ(lines.write({{"a", 1}}), "");
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{20, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string reason = lines.write({{"b", std::string(100, 'x')}});
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  ::signal(SIGXFSZ, handler);
  EXPECT_THAT(reason, HasSubstr("File too large"));
  EXPECT_EQ(lines.write({{"c", 3}}), "");
  EXPECT_EQ(text_of(file), "{\"a\":1}\n{\"c\":3}\n");
}

TEST(Reporter, FailedWriteGivesOneWarningAndTrainingContinues) {
  testing::internal::CaptureStdout();
  Reporter reporter(true, "/dev/full", false);
  StepRecord record;
  reporter.step(record);
  const std::string at_once = testing::internal::GetCapturedStdout();
  EXPECT_THAT(at_once, HasSubstr("warning: --json: '/dev/full' cannot be written: No space left on device"));
  testing::internal::CaptureStdout();
  reporter.step(record);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  testing::internal::CaptureStdout();
  EXPECT_NO_THROW(reporter.counters({}));
  EXPECT_THAT(testing::internal::GetCapturedStdout(), HasSubstr("3 lines are missing"));
}

}  // namespace
}  // namespace imagenet
