// The contract for the hierarchical communicator, with ranks as threads on pretended hosts.
#include <gtest/gtest.h>

#include "comm/make.h"
#include "contract/communicator_contract.h"
#include "support/pretended_hosts.h"
#include "support/sanitizers.h"
#include "support/thread_ranks.h"
#include "telemetry/counters.h"

namespace kolo::test {
namespace {

struct Parameters {
  const ContractCase* contract;
  HostLayout layout;
};

class HierarchicalCommunicatorOfThreads : public testing::TestWithParam<Parameters> {};

TEST_P(HierarchicalCommunicatorOfThreads, KeepsContract) {
  const auto& [contract, layout] = GetParam();
  const int ranks = static_cast<int>(layout.size());
  auto transports = transport::make_inproc(ranks);
  auto memories = make_memories(layout);
  std::vector<telemetry::Counters> counters(layout.size());
  run_ranks(ranks, [&, contract = contract, layout = layout](int rank) {
    const auto r = static_cast<std::size_t>(rank);
    comm::HierarchicalParts parts;
    parts.whole.transport = transports[r].get();
    parts.whole.shared_memory = memories[r].get();
    parts.whole.counters = &counters[r];
    parts.whole.first_tag = 1000;
    parts.hosts = hosts_of(layout);
    parts.may_be_flat = false;
    const auto communicator = comm::make_hierarchical(parts);
    contract->run(*communicator);
  });
}

const HostLayout kLayouts[] = {
    {0, 0, 0, 1},              // one lane, two surplus ranks
    {0, 1, 1, 2},              // the middle host alone has neighbours
    {1, 0, 0, 1, 0},           // 3 + 2 in no order at all
    {0, 0, 1, 1},              // even; with sanitizers only those above
    {0, 1, 0, 1},              // numbered in turns
    {1, 0, 0, 2, 1, 2, 0},     // 3 + 2 + 2
    {0, 0, 1, 1, 2, 2},        // three hosts
    {0, 0, 0, 0, 1, 1, 1, 1},  // more lanes than cores
};

std::vector<Parameters> all_parameters() {
  std::vector<Parameters> all;
  for (const ContractCase& contract : communicator_contract()) {
    for (const HostLayout& layout : std::span(kLayouts).first(fewer_sanitized(std::size(kLayouts), 3))) {
      all.push_back({&contract, layout});
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Threads, HierarchicalCommunicatorOfThreads, testing::ValuesIn(all_parameters()),
                         [](const auto& it) {
                           return std::string(it.param.contract->name) + "_on_" + text_of(it.param.layout);
                         });

}  // namespace
}  // namespace kolo::test
