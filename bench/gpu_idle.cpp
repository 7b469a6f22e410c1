#include "gpu_idle.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

namespace kolo::bench {
namespace {

constexpr std::size_t kListed = 6;
constexpr std::size_t kNameLength = 60;

double rounded(double value) { return std::round(value * 100) / 100; }

}  // namespace

std::vector<Gap> gaps_between(std::vector<Span> spans, int steps) {
  std::ranges::sort(spans, {}, &Span::begin_ns);
  std::map<std::pair<std::string, std::string>, Gap> kinds;
  const Span* last = nullptr;  // the one that ended last so far
  for (const Span& span : spans) {
    if (last != nullptr && span.begin_ns > last->end_ns) {
      Gap& gap = kinds.try_emplace({last->name, span.name}, Gap{last->name, span.name}).first->second;
      gap.number += 1.0 / steps;
      gap.us += static_cast<double>(span.begin_ns - last->end_ns) / 1000 / steps;
    }
    if (last == nullptr || span.end_ns > last->end_ns) last = &span;
  }
  std::vector<Gap> gaps;
  for (const auto& [names, gap] : kinds) gaps.push_back(gap);
  std::ranges::stable_sort(gaps, std::ranges::greater{}, &Gap::us);
  return gaps;
}

std::string json_of(const std::vector<Gap>& gaps) {
  double us = 0;
  double number = 0;
  nlohmann::ordered_json longest = nlohmann::ordered_json::array();
  for (const Gap& gap : gaps) {
    us += gap.us;
    number += gap.number;
    if (longest.size() == kListed) continue;
    longest.push_back({{"after", gap.after.substr(0, kNameLength)},
                       {"before", gap.before.substr(0, kNameLength)},
                       {"number", rounded(gap.number)},
                       {"us", rounded(gap.us)}});
  }
  return nlohmann::ordered_json{{"us", rounded(us)}, {"number", rounded(number)}, {"longest", longest}}.dump();
}

}  // namespace kolo::bench
