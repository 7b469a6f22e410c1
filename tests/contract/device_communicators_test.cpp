// The contract for communicators of device memory: NCCL, simulated, under many schedules.
#include <gtest/gtest.h>

#include <string>

#include "contract/communicator_contract.h"
#include "contract/device_adapter.h"
#include "support/device/nccl_ranks.h"
#include "support/sanitizers.h"
#include "support/thread_ranks.h"

namespace kolo::test {
namespace {

struct Parameters {
  const ContractCase* contract;
  int ranks;
  std::uint64_t seed = 1;
};

class CommunicatorOfDevices : public testing::TestWithParam<Parameters> {};

TEST_P(CommunicatorOfDevices, KeepsContract) {
  const auto [contract, ranks, seed] = GetParam();
  NcclRanks world(ranks, {.seed = seed});
  run_ranks(ranks, [&, contract = contract](int rank) {
    const auto inner = nccl::make_nccl(world.parts(rank));
    DeviceAdapter adapter(*inner, world.runtime, rank);
    contract->run(adapter);
  });
}

// A device combines no flag words in CPU memory, and peers cannot access its memory.
bool applies(const ContractCase& contract) {
  const std::string_view name = contract.name;
  return name != "flags_are_ored" && name != "veto_leaves_data" && !name.starts_with("scattered_");
}

std::vector<Parameters> all_parameters() {
  std::vector<Parameters> all;
  std::uint64_t seed = 0;
  for (const ContractCase& contract : communicator_contract()) {
    if (!applies(contract)) continue;
    for (const int ranks : {1, 2, 3, 4}) all.push_back({&contract, ranks, ++seed});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Nccl, CommunicatorOfDevices, testing::ValuesIn(all_parameters()), [](const auto& it) {
  return std::string(it.param.contract->name) + "_" + std::to_string(it.param.ranks);
});

}  // namespace
}  // namespace kolo::test
