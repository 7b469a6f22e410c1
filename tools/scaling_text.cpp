#include "scaling_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "scaling_plan.h"

namespace kolo::tools {

using nlohmann::ordered_json;

std::string printed(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

std::string ms_text(double ms) {
  const char* format = ms >= 99.95 ? "%.0f ms" : "%.1f ms";
  return printed(ms < 0.95 ? "%.2g ms" : format, ms);
}

std::string bytes_text(double bytes) {
  if (bytes < 1e5) return printed("%.2g kB", 1e-3 * bytes);
  return printed(bytes >= 9.95e6 ? "%.0f MB" : "%.2g MB", 1e-6 * bytes);
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

int number_or_zero(const std::string& text) {
  int number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

std::string padded(const std::string& text, int width) {
  const auto size = static_cast<int>(text.size());
  if (width < 0) return text + std::string(static_cast<std::size_t>(std::max(-width - size, 1)), ' ');
  return std::string(static_cast<std::size_t>(std::max(width - size, 1)), ' ') + text;
}

ordered_json json_of(const Interval& interval) {
  ordered_json high = std::isfinite(interval.high) ? ordered_json(interval.high) : ordered_json();
  return {{"value", interval.value}, {"low", interval.low}, {"high", std::move(high)}};
}

std::string interval_text(const ordered_json& interval, const char* format) {
  std::string text = printed(format, interval.at("value"));
  if (interval.at("high").is_null()) return text + " [?]";
  return text + " [" + printed(format, interval.at("low")) + ", " + printed(format, interval.at("high")) + "]";
}

std::string name_of(const ordered_json& row) { return full_name(row.at("name"), row.at("variant")); }

}  // namespace kolo::tools
