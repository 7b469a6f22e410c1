#pragma once
#include <array>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "kolo/context.h"
#include "kolo/data/loader.h"

namespace imagenet {

// How many damaged files an epoch may have in which all ranks together have read `read` files: `max_broken`, or, if
// that is -1, the larger of 1 % of them and 10.
[[nodiscard]] std::int64_t allowed_broken(std::int64_t max_broken, std::int64_t read) noexcept;

// The files of an epoch of this rank, by part ("train", "val"). Throws kolo::Error on all ranks if more of them are
// damaged, each counted once, than allowed_broken(). Collective.
using FilesOfParts = std::vector<std::pair<std::string, kolo::data::EpochFiles>>;
void check_broken(kolo::Context& context, const FilesOfParts& parts, std::int64_t epoch, std::int64_t max_broken);

// What to tell the user at the end about files that were broken or had to be converted, over all ranks: each file once,
// by name. Adds broken_files, converted_files, images_replaced and images_skipped to `counters`. Collective.
std::vector<std::string> report_files(kolo::Context& context, const std::vector<kolo::data::LoaderReport>& reports,
                                      kolo::CounterSnapshot& counters);

// Damaged and missing files, epoch by epoch.
class DamageReport {
 public:
  // Lines for the user: how many images were replaced or left out since the last call, over all ranks, and the files
  // that no earlier call has named. Empty: no image. Collective.
  std::vector<std::string> next(kolo::Context& context, const std::vector<kolo::data::LoaderReport>& reports);

 private:
  std::array<double, 2> before_{};  // of this rank: replaced, left out
  std::set<std::string> named_;
};

}  // namespace imagenet
