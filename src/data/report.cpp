#include "report.h"

namespace kolo::data {

void ReportBook::decoded(std::int64_t index, const std::string& converted_from) {
  const std::lock_guard lock(mutex_);
  ++counts_.decoded;
  if (!converted_from.empty()) converted_.try_emplace(index, converted_from);
}

void ReportBook::broken(std::int64_t index, const std::string& why) {
  const std::lock_guard lock(mutex_);
  broken_.try_emplace(index, why);
}

void ReportBook::instead(BrokenSample then) {
  const std::lock_guard lock(mutex_);
  ++(then == BrokenSample::replace ? counts_.replaced : counts_.skipped);
}

LoaderReport ReportBook::report(const Dataset& dataset) const {
  const std::lock_guard lock(mutex_);
  LoaderReport report = counts_;
  for (const auto& [index, why] : broken_) report.broken.push_back({dataset.name(index), why});
  for (const auto& [index, from] : converted_) report.converted.push_back({dataset.name(index), from});
  return report;
}

std::vector<OddFile> ReportBook::broken_among(const std::set<std::int64_t>& indices, const Dataset& dataset) const {
  const std::lock_guard lock(mutex_);
  std::vector<OddFile> files;
  for (const std::int64_t index : indices) files.push_back({dataset.name(index), broken_.at(index)});
  return files;
}

}  // namespace kolo::data
