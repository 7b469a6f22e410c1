// The hierarchical communicator between processes, as a Context makes it: on real hosts (emulated ones, see
// hosts.cmake) and on pretended ones. Every test runs on any number of ranks.
#include <gmock/gmock.h>

#include <numeric>

#include "cluster/make.h"
#include "contract/communicator_contract.h"
#include "contract/contract_data.h"
#include "runtime/wires.h"
#include "support/pretended_hosts.h"
#include "telemetry/counters.h"

namespace kolo::test {
namespace {

constexpr std::chrono::milliseconds kLimit{60000};

// The communicator of one rank and the objects that it needs. Members are destroyed from the last to the first.
struct End {
  std::unique_ptr<cluster::Bootstrap> real = cluster::make_mpi_bootstrap();
  std::unique_ptr<cluster::Bootstrap> pretended;
  Config config;
  telemetry::Counters counters;
  runtime::Wires wires;
  std::unique_ptr<Communicator> communicator;

  // `hosts`: the number of pretended hosts, assigned to ranks in turn; 0: the real hosts.
  explicit End(int hosts) {
    cluster::Bootstrap* bootstrap = real.get();
    if (hosts != 0) {
      HostLayout layout;
      for (int r = 0; r < real->placement().size; ++r) layout.push_back(r % hosts);
      pretended = std::make_unique<PretendedHosts>(*real, layout);
      bootstrap = pretended.get();
    }
    config.timeout = kLimit;
    wires = runtime::make_process_wires(*bootstrap, nullptr, counters, config);
    communicator = runtime::make_communicator(wires, config, counters, runtime::Use::many_at_once);
  }
};

class HierarchicalCommunicatorOfProcesses : public testing::TestWithParam<int> {};

TEST_P(HierarchicalCommunicatorOfProcesses, KeepsContract) {
  End end(GetParam());
  for (const ContractCase& contract : communicator_contract()) {
    SCOPED_TRACE(contract.name);
    contract.run(*end.communicator);
  }
}

// In an allreduce, a host with any number of ranks sends 2(h-1)/h of the data, and little else.
TEST_P(HierarchicalCommunicatorOfProcesses, SendsEachByteOfHostOnce) {
  End end(GetParam());
  constexpr std::size_t kBytes = std::size_t{12} << 20;
  constexpr std::size_t kSlack = kBytes / 1000;  // flags, and hosts whose blocks are a little longer than others'
  const std::size_t sizes[] = {kBytes};
  const auto buffers = end.communicator->allocate(sizes, kLimit);
  const auto mine = contribution(DType::f32, end.communicator->rank(), kBytes / sizeof(float));
  std::copy(mine.begin(), mine.end(), buffers[0]->data().data());
  AllreduceOptions options;
  options.registered = buffers[0].get();
  options.data = buffers[0]->data().data();
  options.count = kBytes / sizeof(float);
  std::vector<std::uint64_t> flags = {1, 2, 3};
  options.flags = {flags, std::uint64_t{1} << 63};
  const auto before = end.counters.bytes_on_wire.value();
  end.communicator->allreduce(options, kLimit);
  const auto sent = end.counters.bytes_on_wire.value() - before;
  EXPECT_EQ(
      0, std::memcmp(options.data,
                     reduction(DType::f32, ReduceOp::sum, end.communicator->size(), 0, options.count).data(), kBytes));

  const auto all = end.real->allgather(std::to_string(sent));
  const std::size_t hosts = end.wires.hosts.size();
  for (const auto& ranks : end.wires.hosts) {
    std::size_t of_host = 0;
    for (const Rank rank : ranks) of_host += std::stoul(all[static_cast<std::size_t>(rank)]);
    EXPECT_NEAR(static_cast<double>(of_host), static_cast<double>(2 * (hosts - 1) * kBytes / hosts), kSlack);
  }
}

INSTANTIATE_TEST_SUITE_P(Hosts, HierarchicalCommunicatorOfProcesses, testing::Values(0, 2, 3), [](const auto& it) {
  return it.param == 0 ? "real" : "pretended" + std::to_string(it.param);
});

}  // namespace
}  // namespace kolo::test
