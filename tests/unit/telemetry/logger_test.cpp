#include "telemetry/logger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <utility>
#include <vector>

namespace kolo::telemetry {
namespace {

using Lines = std::vector<std::pair<LogLevel, std::string>>;

LogSink collect(Lines& lines) {
  return [&lines](LogLevel level, std::string_view line) { lines.emplace_back(level, line); };
}

TEST(Logger, HandsOnWhatIsSevereEnough) {
  Lines lines;
  const Logger logger(LogLevel::warn, collect(lines));
  logger.debug("a");
  logger.info("b");
  logger.warn("c");
  logger.error("d");
  EXPECT_EQ(lines, (Lines{{LogLevel::warn, "kolo: c"}, {LogLevel::error, "kolo: d"}}));
  EXPECT_FALSE(logger.enabled(LogLevel::info));
}

TEST(Logger, NamesTheRank) {
  Lines lines;
  Logger(LogLevel::info, collect(lines)).for_rank(3).info("stalled");
  EXPECT_EQ(lines, (Lines{{LogLevel::info, "kolo rank 3: stalled"}}));
}

TEST(Logger, WhatASinkThrowsIsLost) {
  const Logger logger(LogLevel::info, [](LogLevel, std::string_view) { throw std::runtime_error("disk full"); });
  EXPECT_NO_THROW(logger.error("x"));
}

TEST(Logger, StderrByDefault) {
  testing::internal::CaptureStderr();
  const Logger first, second;  // two loggers of one name in one process
  first.warn("braces {} and % are text");
  second.error("y");
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::ContainsRegex("W kolo: braces \\{\\} and % are text\n.*E kolo: y\n"));
}

}  // namespace
}  // namespace kolo::telemetry
