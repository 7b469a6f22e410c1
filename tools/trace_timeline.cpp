#include "trace_timeline.h"

#include <cerrno>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "base/system_error.h"
#include "kolo/error.h"

namespace kolo::tools {
namespace {

constexpr std::size_t kBlock = 1 << 18;
constexpr std::size_t kLongestLine = 1 << 18;
constexpr int kMostRanks = 1'000'000;
constexpr double kMostMicroseconds = 1e15;
constexpr const char* kWhatToPass = "Pass the files that KOLO_TIMELINE=NAME makes: NAME.rank<R>.json";

std::int64_t nanoseconds(const nlohmann::json& microseconds) {
  const auto value = microseconds.get<double>();
  if (std::abs(value) > kMostMicroseconds) throw std::invalid_argument("a clock offset of " + microseconds.dump());
  return std::llround(1000 * value);
}

TimelineHead head_of(const nlohmann::json& event) {
  const nlohmann::json& args = event.at("args");
  if (event.at("name") != "kolo" || args.at("kind") != "timeline") throw std::invalid_argument("another kind of file");
  TimelineHead head;
  head.rank = args.at("rank").get<int>();
  head.size = args.at("size").get<int>();
  head.host = args.at("host").get<std::string>();
  head.clock_offset_ns = nanoseconds(args.at("clock_offset_us"));
  head.clock_error_ns = nanoseconds(args.at("clock_error_us"));
  if (args.contains("facts")) head.facts = args.at("facts").dump();
  return head;
}

}  // namespace

TimelineReader::TimelineReader(std::string path, bool partial)
    : path_(std::move(path)), partial_(partial), block_(kBlock), memory_(kLongestLine) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path_, ignored)) {
    throw UsageError("trace merge: " + path_ + " is a folder. " + kWhatToPass);
  }
  file_.rdbuf()->pubsetbuf(block_.data(), static_cast<std::streamsize>(block_.size()));
  file_.open(path_, std::ios::binary);
  if (!file_) {
    throw UsageError("trace merge: cannot open " + path_ + ": " + base::errno_text(errno) + ". " + kWhatToPass);
  }
  read_head();
}

void TimelineReader::fail(const std::string& what) const {
  throw UsageError("trace merge: " + path_ + ":" + std::to_string(number_) + ": " + what);
}

bool TimelineReader::read_line() {
  file_.getline(memory_.data(), static_cast<std::streamsize>(memory_.size()));
  auto size = static_cast<std::size_t>(file_.gcount());
  if (size == 0) {
    if (file_.bad()) throw UsageError("trace merge: cannot read " + path_ + ": " + base::errno_text(errno));
    return false;
  }
  ++number_;
  has_newline_ = !file_.eof();
  if (file_.fail()) fail("a line of more than 256 KiB: not a timeline of kolo. " + std::string(kWhatToPass));
  if (has_newline_) --size;
  line_ = {memory_.data(), size};
  return true;
}

void TimelineReader::read_head() {
  if (!read_line()) {
    throw UsageError("trace merge: " + path_ +
                     " is empty: the rank was killed before it wrote, or its disk was full. Without this file, use "
                     "--partial");
  }
  const std::string shown(line_.substr(0, 60));
  const bool begins = line_ == "[";
  if (!begins || !read_line()) {
    if (begins) fail("the head is missing: the rank was killed at its start. Without this file, use --partial");
    fail("not a timeline of kolo, which begins with `[`; found `" + shown + "`. " + kWhatToPass);
  }
  more_ = line_.ends_with(',');
  if (more_) line_.remove_suffix(1);
  const nlohmann::json event = nlohmann::json::parse(line_.begin(), line_.end(), nullptr, false);
  if (event.is_discarded() && !has_newline_) {
    fail(
        "the head is cut off: the rank was killed at its start, or its disk was full. Without this file, use "
        "--partial");
  }
  try {
    head_ = head_of(event);
  } catch (const std::exception&) {
    fail("not the head of a timeline of kolo: `" + std::string(line_.substr(0, 60)) + "`. " + kWhatToPass);
  }
  if (head_.size < 1 || head_.size > kMostRanks || head_.rank < 0 || head_.rank >= head_.size ||
      head_.clock_error_ns < 0) {
    fail("the head is damaged: rank " + std::to_string(head_.rank) + " of " + std::to_string(head_.size));
  }
}

bool TimelineReader::next(TraceEvent& event) {
  if (ended_) return false;
  if (!read_line()) return cut_off("`]` is missing at the end");
  if (line_ == "]") {
    close();
    return false;
  }
  if (!more_) fail("an event behind a line without a comma: the file is damaged, or of two runs");
  more_ = line_.ends_with(',');
  if (more_) line_.remove_suffix(1);
  try {
    parse_event(line_, event);
  } catch (const std::invalid_argument& error) {
    if (!has_newline_) return cut_off("the file ends in the middle of a line");
    fail(error.what() + std::string(": the file is damaged. Without this file, use --partial"));
  }
  return true;
}

void TimelineReader::close() {
  if (more_) fail("`]` behind a comma: the file is damaged");
  if (read_line()) fail("text behind the end of the timeline: the file is damaged, or of two runs");
  complete_ = true;
  ended_ = true;
}

bool TimelineReader::cut_off(const std::string& what) {
  if (!partial_) {
    fail(what +
         ": the rank was killed or still runs, or its disk was full. To merge its complete lines, use --partial");
  }
  ended_ = true;
  return false;
}

}  // namespace kolo::tools
