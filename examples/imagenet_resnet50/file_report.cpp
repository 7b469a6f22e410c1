#include "file_report.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <sstream>

#include "kolo/error.h"
#include "ranks.h"

namespace imagenet {
namespace {

constexpr std::size_t kNamed = 20;  // files listed by name before the rest is only counted

// Ranks see different files in training, and the same ones in other epochs: the union.
std::set<std::string> union_over_ranks(kolo::Context& context, const std::vector<kolo::data::OddFile>& mine,
                                       Where where = Where::current()) {
  std::string text;
  for (const auto& file : mine) text += file.name + ": " + file.what + '\0';
  std::set<std::string> lines;
  for (const auto& part : gather(context, text, where)) {
    std::istringstream in(part);
    for (std::string line; std::getline(in, line, '\0');) lines.insert(line);
  }
  return lines;
}

void append_names(std::vector<std::string>& out, const std::set<std::string>& files) {
  std::size_t listed = 0;
  for (const auto& file : files) {
    if (listed++ == kNamed) break;
    out.push_back("  " + file);
  }
  if (files.size() > kNamed) out.push_back("  and " + std::to_string(files.size() - kNamed) + " more");
}

void append(std::vector<std::string>& out, const std::string& head, const std::set<std::string>& files) {
  if (files.empty()) return;
  out.push_back(std::to_string(files.size()) + " " + head);
  append_names(out, files);
}

}  // namespace

std::int64_t allowed_broken(std::int64_t max_broken, std::int64_t read) noexcept {
  return max_broken >= 0 ? max_broken : std::max<std::int64_t>(read / 100, 10);
}

void check_broken(kolo::Context& context, const FilesOfParts& parts, std::int64_t epoch, std::int64_t max_broken) {
  double read = 0;
  std::string mine;  // names and reasons, which hold no NUL
  for (const auto& [part, files] : parts) {
    read += static_cast<double>(files.read);
    for (const auto& file : files.broken) mine += part + '/' + file.name + '\0' + file.what + '\0';
  }
  sum_over_ranks(context, {&read, 1});
  std::map<std::string, std::string> broken;  // why, by name
  for (const std::string& text : gather(context, mine)) {
    std::istringstream in(text);
    for (std::string name, why; std::getline(in, name, '\0') && std::getline(in, why, '\0');) broken.emplace(name, why);
  }
  const auto count = static_cast<std::int64_t>(broken.size());
  const auto files = static_cast<std::int64_t>(read);
  const std::int64_t allowed = allowed_broken(max_broken, files);
  if (count <= allowed) return;
  std::set<std::string> names;
  for (const auto& [name, why] : broken) names.insert(name + ": " + why);
  std::vector<std::string> lines;
  append(lines,
         "of " + std::to_string(files) + " files are damaged, more than " + std::to_string(allowed) +
             ". Repair or remove them, or raise --max-broken:",
         names);
  std::string text = "epoch " + std::to_string(epoch + 1) + ": ";
  for (const std::string& line : lines) text += (&line == &lines.front() ? "" : "\n") + line;
  throw kolo::Error(text);
}

std::vector<std::string> report_files(kolo::Context& context, const std::vector<kolo::data::LoaderReport>& reports,
                                      kolo::CounterSnapshot& counters) {
  std::vector<kolo::data::OddFile> broken, converted;
  std::array<double, 2> reads{};  // replaced, skipped
  for (const auto& report : reports) {
    broken.insert(broken.end(), report.broken.begin(), report.broken.end());
    converted.insert(converted.end(), report.converted.begin(), report.converted.end());
    reads[0] += static_cast<double>(report.replaced);
    reads[1] += static_cast<double>(report.skipped);
  }
  sum_over_ranks(context, reads);
  const auto broken_files = union_over_ranks(context, broken);
  const auto converted_files = union_over_ranks(context, converted);
  counters["broken_files"] = broken_files.size();
  counters["converted_files"] = converted_files.size();
  counters["images_replaced"] = static_cast<std::uint64_t>(reads[0]);
  counters["images_skipped"] = static_cast<std::uint64_t>(reads[1]);
  std::vector<std::string> lines;
  append(lines, "broken files, replaced in training and left out of validation:", broken_files);
  append(lines, "files converted to RGB:", converted_files);
  return lines;
}

std::vector<std::string> DamageReport::next(kolo::Context& context,
                                            const std::vector<kolo::data::LoaderReport>& reports) {
  std::vector<kolo::data::OddFile> broken;
  std::array<double, 2> now{};
  for (const auto& report : reports) {
    broken.insert(broken.end(), report.broken.begin(), report.broken.end());
    now[0] += static_cast<double>(report.replaced);
    now[1] += static_cast<double>(report.skipped);
  }
  std::array<double, 2> images = {now[0] - before_[0], now[1] - before_[1]};
  before_ = now;
  sum_over_ranks(context, images);
  if (images[0] + images[1] == 0) return {};
  std::set<std::string> files;
  for (const auto& line : union_over_ranks(context, broken)) {
    if (named_.insert(line).second) files.insert(line);
  }
  std::vector<std::string> lines = {
      std::to_string(static_cast<std::int64_t>(images[0])) + " training images replaced and " +
      std::to_string(static_cast<std::int64_t>(images[1])) + " validation images left out; files damaged or missing: " +
      (files.empty() ? "named before" : std::to_string(files.size()))};
  append_names(lines, files);
  return lines;
}

}  // namespace imagenet
