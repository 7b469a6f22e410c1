#pragma once
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "kolo/data/loader.h"

namespace kolo::data {

// What the workers say about files; turned into a LoaderReport on demand.
class ReportBook {
 public:
  void decoded(std::int64_t index, const std::string& converted_from);
  void broken(std::int64_t index, const std::string& why);
  // A sample was replaced, or left out.
  void instead(BrokenSample then);
  [[nodiscard]] LoaderReport report(const Dataset& dataset) const;
  // Those of the broken files that are among `indices`.
  [[nodiscard]] std::vector<OddFile> broken_among(const std::set<std::int64_t>& indices, const Dataset& dataset) const;

 private:
  mutable std::mutex mutex_;
  LoaderReport counts_;  // its lists stay empty
  std::map<std::int64_t, std::string> broken_;
  std::map<std::int64_t, std::string> converted_;
};

}  // namespace kolo::data
