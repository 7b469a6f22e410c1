// The contract for groups of processes, under mpirun: plain MPI, our algorithms over MPI, over shared-memory messages,
// and direct.
#include <gtest/gtest.h>
#include <sys/uio.h>
#include <unistd.h>

#include <bit>
#include <memory>
#include <string>

#include "cluster/make.h"
#include "comm/make.h"
#include "contract/communicator_contract.h"
#include "telemetry/counters.h"
#include "transport/make.h"

namespace kolo::test {
namespace {

constexpr std::chrono::milliseconds kLimit{60000};

void run_all(Communicator& communicator) {
  for (const ContractCase& contract : communicator_contract()) {
    SCOPED_TRACE(contract.name);
    contract.run(communicator);
  }
}

void run_named(Communicator& communicator) {
  for (const Algorithm algorithm :
       {Algorithm::ring, Algorithm::tree, Algorithm::halving_doubling, Algorithm::recursive_doubling}) {
    for (const ContractCase& contract : communicator_contract()) {
      if (!contract.reduces) continue;
      SCOPED_TRACE(std::string(contract.name) + ", algorithm " + std::to_string(static_cast<int>(algorithm)));
      contract.run(communicator, algorithm);
    }
  }
}

TEST(ProcessContract, Mpi) {
  const auto communicator = comm::make_mpi();
  run_all(*communicator);
}

TEST(ProcessContract, NetworkAlgorithmsOverMpi) {
  telemetry::Counters counters;
  const auto transport = transport::make_mpi(nullptr, counters);
  comm::AlgorithmicParts parts;
  parts.transport = transport.get();
  parts.counters = &counters;
  const auto communicator = comm::make_algorithmic(parts);
  run_all(*communicator);
  run_named(*communicator);
}

// Asked without what is tested: whether each of two ranks can read a byte of the other's.
bool may_read_each_other(cluster::Bootstrap& bootstrap) {
  static const std::byte there{42};
  const auto pids = bootstrap.allgather(std::to_string(getpid()));
  const auto addresses = bootstrap.allgather(std::to_string(reinterpret_cast<std::uintptr_t>(&there)));
  const auto peer = static_cast<std::size_t>(1 - bootstrap.placement().rank);
  std::byte here{};
  const iovec to{&here, 1};
  const iovec from{std::bit_cast<void*>(std::stoull(addresses[peer])), 1};
  const bool read = process_vm_readv(std::stoi(pids[peer]), &to, 1, &from, 1, 0) == 1 && here == there;
  const auto all = bootstrap.allgather(read ? "yes" : "no");
  return all[0] == "yes" && all[1] == "yes";
}

enum class Way { network, lanes, pulled };
class OneHost : public testing::TestWithParam<Way> {};

TEST_P(OneHost, SharedMemory) {
  telemetry::Counters counters;
  const auto bootstrap = cluster::make_mpi_bootstrap();
  const auto memory = transport::make_process_shared_memory(*bootstrap, kLimit);
  const auto transport = transport::make_shm(*bootstrap, *memory, kLimit);
  comm::AlgorithmicParts parts;
  parts.transport = transport.get();
  if (GetParam() != Way::network) parts.shared_memory = memory.get();
  if (GetParam() == Way::pulled) {
    if (bootstrap->placement().size != 2) GTEST_SKIP() << "a way of two ranks";
    if (!may_read_each_other(*bootstrap)) GTEST_SKIP() << "processes may not read each other's memory here";
    ASSERT_TRUE(memory->can_pull());
    parts.pulled_from = 1;
  }
  parts.pulled_below = GetParam() == Way::pulled ? std::size_t{1} << 40 : 0;
  parts.counters = &counters;
  const auto communicator = comm::make_algorithmic(parts);
  run_all(*communicator);
  if (GetParam() == Way::network) run_named(*communicator);
}

INSTANTIATE_TEST_SUITE_P(Ways, OneHost, testing::Values(Way::network, Way::lanes, Way::pulled), [](const auto& it) {
  return it.param == Way::network ? "Network" : it.param == Way::lanes ? "Lanes" : "Pulled";
});

}  // namespace
}  // namespace kolo::test
