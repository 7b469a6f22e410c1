#pragma once
#include <vector>

#include "kolo/communicator.h"
#include "kolo/config.h"
#include "nccl/agree.h"

namespace kolo::nccl {

// Settings of one communicator, equal on all ranks.
struct RegistrationWish {
  NcclRegistration asked = NcclRegistration::automatic;
  bool shared_device = false;
  Algorithm algorithm = Algorithm::automatic;
};

// What all ranks do with new memory; never automatic. Windows where they were asked for or can be of use: NCCL's own
// kernels for them reduce over NVLink between the ranks of one host, in neither ring nor tree. Throws UsageError on all
// ranks for windows that cannot be had.
[[nodiscard]] NcclRegistration choose_registration(const std::vector<RankFacts>& ranks, const RegistrationWish& wish);

}  // namespace kolo::nccl
