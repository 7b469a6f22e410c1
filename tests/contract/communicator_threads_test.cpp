// The contract for groups of threads: self, and kolo's algorithms with and without shared memory.
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

// The memory that ranks share.
enum class Memory { none, shared };
std::string name_of(Memory memory) { return memory == Memory::none ? "_network_" : "_direct_"; }

struct Parameters {
  const ContractCase* contract;
  int ranks;
  Memory memory;
  Algorithm algorithm = Algorithm::automatic;
};

class CommunicatorOfThreads : public testing::TestWithParam<Parameters> {};

TEST_P(CommunicatorOfThreads, KeepsContract) {
  const auto [contract, ranks, memory, algorithm] = GetParam();
  auto transports = transport::make_inproc(ranks);
  auto memories = transport::make_inproc_shared_memory(ranks);
  std::vector<telemetry::Counters> counters(static_cast<std::size_t>(ranks));
  run_ranks(ranks, [&, contract = contract, memory = memory, algorithm = algorithm](int rank) {
    const auto r = static_cast<std::size_t>(rank);
    comm::AlgorithmicParts parts;
    parts.transport = transports[r].get();
    if (memory == Memory::shared) parts.shared_memory = memories[r].get();
    parts.counters = &counters[r];
    parts.first_tag = 1000;
    const auto communicator = comm::make_algorithmic(parts);
    contract->run(*communicator, algorithm);
  });
}

// Powers of two and other sizes, for which the algorithms differ.
const std::vector<int> kGroups = {1, 2, 3, 4, 5, 7, 8};
const std::vector<int> kFewGroups = {1, 2, 4, 5};

std::vector<Parameters> all_parameters() {
  std::vector<Parameters> all;
  for (const ContractCase& contract : communicator_contract()) {
    for (const Memory memory : {Memory::none, Memory::shared}) {
      for (const int ranks : kSanitized ? kFewGroups : kGroups) all.push_back({&contract, ranks, memory});
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Algorithmic, CommunicatorOfThreads, testing::ValuesIn(all_parameters()), [](const auto& it) {
  return it.param.contract->name + name_of(it.param.memory) + std::to_string(it.param.ranks);
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
        all.push_back({&contract, ranks, Memory::none, named.algorithm});
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Named, CommunicatorOfThreads, testing::ValuesIn(named_parameters()), [](const auto& it) {
  const auto* named = std::find_if(std::begin(kNamed), std::end(kNamed),
                                   [&](const Named& each) { return each.algorithm == it.param.algorithm; });
  return std::string(it.param.contract->name) + "_" + named->name + "_" + std::to_string(it.param.ranks);
});

// Rank 0 starts both operations. Rank 1 ends the first operation before it starts the second.
TEST(CommunicatorOfThreads, StartAfterAllocateWaitsForNoRank) {
  constexpr auto kLimit = std::chrono::seconds(20);
  auto transports = transport::make_inproc(2);
  auto memories = transport::make_inproc_shared_memory(2);
  run_ranks(2, [&](int rank) {
    const auto r = static_cast<std::size_t>(rank);
    comm::AlgorithmicParts parts;
    parts.transport = transports[r].get();
    parts.shared_memory = memories[r].get();
    parts.timeout = kLimit;
    const auto communicator = comm::make_algorithmic(parts);
    const std::size_t little[] = {64};
    const auto allocated = communicator->allocate(little, kLimit);
    std::vector<float> small(std::size_t{1} << 18, 1.0F);
    std::vector<float> large(std::size_t{1} << 20, 2.0F);
    const auto start = [&](std::vector<float>& data) {
      AllreduceOptions options;
      options.data = reinterpret_cast<std::byte*>(data.data());
      options.count = data.size();
      return communicator->start(options);
    };
    const auto first = start(small);
    if (rank == 1) communicator->drive(*first, kLimit, "first");
    const auto second = start(large);
    communicator->drive(*second, kLimit, "second");
    communicator->drive(*first, kLimit, "first");
    EXPECT_EQ(small, std::vector<float>(small.size(), 2.0F));
    EXPECT_EQ(large, std::vector<float>(large.size(), 4.0F));
  });
}

TEST(SelfCommunicator, KeepsContract) {
  const auto self = comm::make_self();
  for (const ContractCase& contract : communicator_contract()) {
    SCOPED_TRACE(contract.name);
    contract.run(*self);
  }
}

}  // namespace
}  // namespace kolo::test
