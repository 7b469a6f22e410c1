#include "telemetry/logger.h"

// Header-only, with the fmt that belongs to it. Only this file: LibTorch brings another fmt.
#define FMT_HEADER_ONLY
#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <memory>
#include <utility>

namespace kolo::telemetry {
namespace {

spdlog::level::level_enum spdlog_level(LogLevel level) noexcept {
  switch (level) {
    case LogLevel::debug:
      return spdlog::level::debug;
    case LogLevel::info:
      return spdlog::level::info;
    case LogLevel::warn:
      return spdlog::level::warn;
    case LogLevel::error:
      return spdlog::level::err;
  }
  return spdlog::level::err;
}

}  // namespace

LogSink make_stderr_sink() {
  // Not in spdlog's registry, which is global: a program may use spdlog too, and two Contexts have two loggers.
  auto logger = std::make_shared<spdlog::logger>("kolo", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_pattern("%H:%M:%S.%e %L %v");
  logger->set_level(spdlog::level::trace);
  logger->flush_on(spdlog::level::trace);
  logger->set_error_handler([](const std::string&) {});
  return [logger](LogLevel level, std::string_view line) {
    logger->log(spdlog_level(level), spdlog::string_view_t(line.data(), line.size()));
  };
}

Logger::Logger(LogLevel threshold, LogSink sink, std::string prefix)
    : threshold_(threshold), sink_(sink ? std::move(sink) : make_stderr_sink()), prefix_(std::move(prefix)) {}

Logger Logger::for_rank(int rank) const {
  return Logger(threshold_, sink_, "kolo rank " + std::to_string(rank) + ": ");
}

void Logger::write(LogLevel level, std::string_view line) const noexcept {
  if (!enabled(level)) return;
  try {
    std::string whole;
    whole.reserve(prefix_.size() + line.size());
    whole.append(prefix_).append(line);
    sink_(level, whole);
  } catch (...) {  // a log line is never worth an operation
  }
}

}  // namespace kolo::telemetry
