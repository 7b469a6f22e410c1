#include "trace_event.h"

#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace kolo::tools {
namespace {

// 31 years of uptime: sums and differences of a few times fit into 64 bits.
constexpr double kMostMicroseconds = 1e15;

[[noreturn]] void refuse_time(std::string_view key, std::string_view text) {
  throw std::invalid_argument(std::string(key) + " " + std::string(text) + " is not a time in microseconds");
}

// A double holds every nanosecond of 104 days only, so digits are taken one by one. `text` is a number of JSON.
std::int64_t nanoseconds(std::string_view key, std::string_view text) {
  const char* const end = text.data() + text.size();
  double microseconds = 0;
  if (std::from_chars(text.data(), end, microseconds).ec != std::errc() || std::abs(microseconds) > kMostMicroseconds) {
    refuse_time(key, text);
  }
  const bool negative = text.front() == '-';
  std::int64_t whole = 0;
  const char* digit = std::from_chars(text.data() + (negative ? 1 : 0), end, whole).ptr;
  std::int64_t ns = whole * 1000;
  if (digit != end && *digit == '.') {
    ++digit;
    for (std::int64_t unit = 100; unit > 0 && digit != end && *digit >= '0' && *digit <= '9'; unit /= 10) {
      ns += unit * (*digit++ - '0');
    }
  }
  if (digit != end) return std::llround(microseconds * 1000);  // more decimals, or an exponent
  return negative ? -ns : ns;
}

template <class Number>
std::string_view digits_of(Number value, char (&memory)[24]) {
  return {memory, static_cast<std::size_t>(std::to_chars(memory, memory + sizeof memory, value).ptr - memory)};
}

// nlohmann's parser calls it, token by token. Depth 1 is the event.
class EventHandler {
 public:
  explicit EventHandler(TraceEvent& event) : event_(event) {}

  bool null() { return scalar("null"); }
  bool boolean(bool value) { return scalar(value ? "true" : "false"); }
  bool number_integer(std::int64_t value) {
    char memory[24];
    return number(digits_of(value, memory));
  }
  bool number_unsigned(std::uint64_t value) {
    if (depth_ == 2 && in_args_ && key_ == "round") event_.round = value;
    char memory[24];
    return number(digits_of(value, memory));
  }
  bool number_float(double /*value*/, const std::string& text) { return number(text); }
  bool string(const std::string& value) {
    if (depth_ == 1 && key_ == "name") {
      event_.name = value;
    } else if (depth_ == 1 && key_ == "ph") {
      event_.phase = value;
    } else {
      if (depth_ == 2 && in_args_ && key_ == "algorithm") event_.algorithm = value;
      word_.clear();
      append_quoted(word_, value);
      return scalar(word_);
    }
    return true;
  }
  template <class Binary>
  bool binary(const Binary& /*value*/) {
    return false;  // JSON has none
  }
  bool key(const std::string& name) {
    key_ = name;
    if (depth_ == 1) return true;
    separate();
    append_quoted(*text_, name);
    *text_ += ':';
    separated_ = true;
    return true;
  }
  bool start_object(std::size_t /*elements*/) { return open('{'); }
  bool end_object() { return close('}'); }
  bool start_array(std::size_t /*elements*/) { return open('['); }
  bool end_array() { return close(']'); }
  template <class Exception>
  bool parse_error(std::size_t column, const std::string& token, const Exception& /*error*/) {
    throw std::invalid_argument("not valid JSON at column " + std::to_string(column) + ": `" + token.substr(0, 40) +
                                "`");
  }

 private:
  void separate() {
    if (!separated_) *text_ += ',';
    separated_ = false;
  }
  // A value of the event that has no field.
  void begin_rest() {
    event_.rest += ',';
    append_quoted(event_.rest, key_);
    event_.rest += ':';
    text_ = &event_.rest;
    separated_ = true;
  }
  bool scalar(std::string_view text) {
    if (depth_ == 0) throw std::invalid_argument("not an event");
    if (depth_ == 1) begin_rest();
    separate();
    *text_ += text;
    return true;
  }
  bool number(std::string_view text) {
    if (depth_ != 1) return scalar(text);
    if (key_ == "ts") {
      event_.begin_ns = nanoseconds(key_, text);
    } else if (key_ == "dur") {
      event_.duration_ns = nanoseconds(key_, text);
    } else if (key_ == "tid") {
      std::int64_t tid = 0;
      const auto [last, error] = std::from_chars(text.data(), text.data() + text.size(), tid);
      if (error != std::errc() || last != text.data() + text.size()) {
        throw std::invalid_argument("tid " + std::string(text) + " is not a whole number");
      }
      event_.tid = tid;
    } else if (key_ != "pid") {  // which is the rank
      return scalar(text);
    }
    return true;
  }
  bool open(char bracket) {
    if (depth_ == 0 && bracket != '{') throw std::invalid_argument("not an event");
    if (depth_ == 1) {
      in_args_ = key_ == "args" && bracket == '{';
      if (in_args_) {
        event_.args.clear();
        text_ = &event_.args;
        separated_ = true;
      } else {
        begin_rest();
      }
    }
    if (++depth_ == 1) return true;
    separate();
    *text_ += bracket;
    separated_ = true;
    return true;
  }
  bool close(char bracket) {
    if (--depth_ == 0) return true;
    *text_ += bracket;
    separated_ = false;
    return true;
  }

  TraceEvent& event_;
  int depth_ = 0;
  bool in_args_ = false;
  bool separated_ = true;        // no comma before the next value
  std::string key_;              // the last one
  std::string word_;             // memory
  std::string* text_ = nullptr;  // where a nested value is written
};

}  // namespace

void parse_event(std::string_view line, TraceEvent& event) {
  event.name.clear();
  event.phase.clear();
  event.tid.reset();
  event.begin_ns.reset();
  event.duration_ns.reset();
  event.args.clear();
  event.round.reset();
  event.algorithm.clear();
  event.rest.clear();
  EventHandler handler(event);
  nlohmann::json::sax_parse(line.begin(), line.end(), &handler);
  if (event.name.empty() || event.phase.empty()) throw std::invalid_argument("an event without `name` or `ph`");
  if (event.duration_ns.value_or(0) < 0) {
    std::string text = "dur ";
    append_time(text, *event.duration_ns);
    throw std::invalid_argument(text + " is negative");
  }
  if (event.phase == "X" && !(event.tid && event.begin_ns && event.duration_ns)) {
    throw std::invalid_argument("a span of time without `tid`, `ts` or `dur`");
  }
}

void append_time(std::string& text, std::int64_t ns) {
  const std::uint64_t size = ns < 0 ? -static_cast<std::uint64_t>(ns) : static_cast<std::uint64_t>(ns);
  if (ns < 0) text += '-';
  char memory[24];
  text += digits_of(size / 1000, memory);
  const auto rest = static_cast<unsigned>(size % 1000);
  text += {'.', static_cast<char>('0' + rest / 100), static_cast<char>('0' + rest / 10 % 10),
           static_cast<char>('0' + rest % 10)};
}

void append_quoted(std::string& text, std::string_view value) {
  for (const char c : value) {
    if (c == '"' || c == '\\' || static_cast<unsigned char>(c) < 0x20) {
      text += nlohmann::json(value).dump();
      return;
    }
  }
  text += '"';
  text += value;
  text += '"';
}

}  // namespace kolo::tools
