// The contract for groups of threads: self, and our algorithms with and without shared memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "comm/make.h"
#include "contract/communicator_contract.h"
#include "support/sanitizers.h"
#include "support/thread_ranks.h"
#include "telemetry/counters.h"
#include "transport/make.h"

namespace kolo::test {
namespace {

struct Parameters {
  const ContractCase* contract;
  int ranks;
  bool shared_memory;
  Algorithm algorithm = Algorithm::automatic;
};

class ThreadContract : public testing::TestWithParam<Parameters> {};

TEST_P(ThreadContract, Holds) {
  const auto [contract, ranks, shared, algorithm] = GetParam();
  auto transports = transport::make_inproc(ranks);
  auto memories = transport::make_inproc_shared_memory(ranks);
  std::vector<telemetry::Counters> counters(static_cast<std::size_t>(ranks));
  run_ranks(ranks, [&, contract = contract, shared = shared, algorithm = algorithm](int rank) {
    const auto r = static_cast<std::size_t>(rank);
    comm::AlgorithmicParts parts;
    parts.transport = transports[r].get();
    parts.shared_memory = shared ? memories[r].get() : nullptr;
    parts.counters = &counters[r];
    parts.first_tag = 1000;
    const auto communicator = comm::make_algorithmic(parts);
    contract->run(*communicator, algorithm);
  });
}

// Powers of two, and others: those take different ways.
const std::vector<int> kGroups = {1, 2, 3, 4, 5, 7, 8};
const std::vector<int> kFewGroups = {1, 2, 4, 5};

std::vector<Parameters> all_parameters() {
  std::vector<Parameters> all;
  for (const ContractCase& contract : communicator_contract()) {
    for (const bool shared : {true, false}) {
      for (const int ranks : kSanitized ? kFewGroups : kGroups) all.push_back({&contract, ranks, shared});
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Algorithmic, ThreadContract, testing::ValuesIn(all_parameters()), [](const auto& it) {
  return std::string(it.param.contract->name) + (it.param.shared_memory ? "_direct_" : "_network_") +
         std::to_string(it.param.ranks);
});

struct Named {
  Algorithm algorithm;
  const char* name;
};
constexpr Named kNamed[] = {{Algorithm::ring, "ring"},
                            {Algorithm::tree, "tree"},
                            {Algorithm::halving_doubling, "halving_doubling"},
                            {Algorithm::recursive_doubling, "recursive_doubling"}};

std::vector<Parameters> named_parameters() {
  std::vector<Parameters> all;
  for (const ContractCase& contract : communicator_contract()) {
    if (!contract.reduces) continue;
    for (const Named& named : kNamed) {
      for (const int ranks : kSanitized ? kFewGroups : kGroups)
        all.push_back({&contract, ranks, false, named.algorithm});
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Named, ThreadContract, testing::ValuesIn(named_parameters()), [](const auto& it) {
  const auto* named = std::find_if(std::begin(kNamed), std::end(kNamed),
                                   [&](const Named& each) { return each.algorithm == it.param.algorithm; });
  return std::string(it.param.contract->name) + "_" + named->name + "_" + std::to_string(it.param.ranks);
});

TEST(SelfContract, Holds) {
  const auto self = comm::make_self();
  for (const ContractCase& contract : communicator_contract()) {
    SCOPED_TRACE(contract.name);
    contract.run(*self);
  }
}

}  // namespace
}  // namespace kolo::test
