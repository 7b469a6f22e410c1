#include "file_report.h"

#include <array>
#include <set>
#include <sstream>

#include "kolo/gather_texts.h"
#include "ranks.h"

namespace imagenet {
namespace {

constexpr std::size_t kNamed = 20;  // files listed by name before the rest is only counted

// Ranks see different files in training, and the same ones in other epochs: the union, a file a line.
std::set<std::string> union_over_ranks(kolo::Context& context, const std::vector<kolo::data::OddFile>& mine) {
  std::string text;
  for (const auto& file : mine) text += file.name + ": " + file.what + '\n';
  std::set<std::string> lines;
  for (const auto& part : kolo::gather_texts(context, text)) {
    std::istringstream in(part);
    for (std::string line; std::getline(in, line);) lines.insert(line);
  }
  return lines;
}

void append(std::vector<std::string>& out, const std::string& head, const std::set<std::string>& files) {
  if (files.empty()) return;
  out.push_back(std::to_string(files.size()) + " " + head);
  std::size_t listed = 0;
  for (const auto& file : files) {
    if (listed++ == kNamed) break;
    out.push_back("  " + file);
  }
  if (files.size() > kNamed) out.push_back("  and " + std::to_string(files.size() - kNamed) + " more");
}

}  // namespace

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

}  // namespace imagenet
