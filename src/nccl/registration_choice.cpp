#include "nccl/registration_choice.h"

#include <algorithm>
#include <string>

#include "base/fields.h"
#include "kolo/error.h"
#include "nccl/library.h"

namespace kolo::nccl {
namespace {

constexpr const char* kSetting = "KOLO_NCCL_REGISTRATION=window";

// The first rank whose NCCL has none; size(): all have them.
std::size_t first_without(const std::vector<RankFacts>& ranks) {
  return static_cast<std::size_t>(std::ranges::find_if(ranks, [](const RankFacts& each) { return !each.windows; }) -
                                  ranks.begin());
}

void require_windows(const std::vector<RankFacts>& ranks, Algorithm algorithm) {
  if (algorithm != Algorithm::automatic) {
    throw UsageError(std::string(kSetting) +
                     ", and ring or tree for the whole communicator: NCCL reduces memory in windows "
                     "in neither. Ask for one of the two");
  }
  const std::size_t without = first_without(ranks);
  if (without == ranks.size()) return;
  throw UsageError(std::string(kSetting) + ", but NCCL " + version_text(ranks[without].version) + " of " +
                   base::rank_text(without, ranks[without].host) +
                   " has no windows that end in order: that is new in 2.29.7. Use buffer, or auto");
}

}  // namespace

// Windows only for those who ask: what they gain, and how they end, has been tried on no GPU yet.
NcclRegistration choose_registration(const std::vector<RankFacts>& ranks, NcclRegistration asked, Algorithm algorithm) {
  if (asked == NcclRegistration::window) require_windows(ranks, algorithm);
  return asked == NcclRegistration::automatic ? NcclRegistration::buffer : asked;
}

}  // namespace kolo::nccl
