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

NcclRegistration choose_registration(const std::vector<RankFacts>& ranks, const RegistrationWish& wish) {
  if (wish.asked == NcclRegistration::window) require_windows(ranks, wish.algorithm);
  if (wish.asked != NcclRegistration::automatic) return wish.asked;
  const bool one_host = std::ranges::all_of(ranks, [&](const RankFacts& each) { return each.host == ranks[0].host; });
  const bool useful = one_host && ranks.size() > 1 && !wish.shared_device && wish.algorithm == Algorithm::automatic;
  return useful && first_without(ranks) == ranks.size() ? NcclRegistration::window : NcclRegistration::buffer;
}

}  // namespace kolo::nccl
