#include "runtime/config_values.h"

#include <charconv>
#include <limits>
#include <utility>

#include "base/strings.h"

namespace kolo::runtime {
namespace {

using Unit = std::pair<std::string_view, unsigned long long>;

constexpr Unit kByteUnits[] = {{"", 1},
                               {"B", 1},
                               {"K", 1ull << 10},
                               {"KB", 1ull << 10},
                               {"KIB", 1ull << 10},
                               {"M", 1ull << 20},
                               {"MB", 1ull << 20},
                               {"MIB", 1ull << 20},
                               {"G", 1ull << 30},
                               {"GB", 1ull << 30},
                               {"GIB", 1ull << 30}};
constexpr Unit kTimeUnits[] = {{"MS", 1}, {"S", 1000}, {"M", 60 * 1000}, {"MIN", 60 * 1000}, {"H", 3600 * 1000}};

// <digits><unit>, both without a sign or blanks; nothing on overflow.
template <std::size_t n>
std::optional<unsigned long long> parse_with_unit(std::string_view text, const Unit (&units)[n]) {
  unsigned long long number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (problem != std::errc{}) return std::nullopt;
  const std::string suffix = base::to_upper(text.substr(static_cast<std::size_t>(end - text.data())));
  for (const auto& [name, factor] : units) {
    if (suffix != name) continue;
    const auto most = static_cast<unsigned long long>(std::numeric_limits<long long>::max());
    if (number > most / factor) return std::nullopt;
    return number * factor;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::size_t> parse_bytes(std::string_view text) {
  const auto bytes = parse_with_unit(text, kByteUnits);
  if (!bytes) return std::nullopt;
  return static_cast<std::size_t>(*bytes);
}

std::string print_bytes(std::size_t bytes) {
  for (const auto& [shift, suffix] : {std::pair{30, "G"}, std::pair{20, "M"}, std::pair{10, "K"}}) {
    if (bytes != 0 && bytes % (std::size_t{1} << shift) == 0) return std::to_string(bytes >> shift) + suffix;
  }
  return std::to_string(bytes);
}

std::optional<std::chrono::milliseconds> parse_duration(std::string_view text) {
  if (text == "0") return std::chrono::milliseconds{0};
  const auto milliseconds = parse_with_unit(text, kTimeUnits);
  if (!milliseconds) return std::nullopt;
  return std::chrono::milliseconds{static_cast<long long>(*milliseconds)};
}

std::string print_duration(std::chrono::milliseconds duration) {
  const auto count = duration.count();
  if (count == 0) return "0";
  return count % 1000 == 0 ? std::to_string(count / 1000) + "s" : std::to_string(count) + "ms";
}

std::optional<long long> parse_integer(std::string_view text) {
  long long number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (problem != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace kolo::runtime
