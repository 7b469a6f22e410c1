// The contract for groups of processes, under mpirun: plain MPI, and kolo's algorithms over MPI, over messages in
// shared memory, and direct.
#include <gtest/gtest.h>

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

TEST(CommunicatorOfProcesses, MpiKeepsContract) {
  const auto communicator = comm::make_mpi();
  run_all(*communicator);
}

TEST(CommunicatorOfProcesses, AlgorithmsOverMpiKeepContract) {
  telemetry::Counters counters;
  const auto transport = transport::make_mpi(nullptr, counters);
  comm::AlgorithmicParts parts;
  parts.transport = transport.get();
  parts.counters = &counters;
  const auto communicator = comm::make_algorithmic(parts);
  run_all(*communicator);
  run_named(*communicator);
}

// The memory that the communicator may use beside its messages.
enum class Memory { none, shared };
class SharedMemoryCommunicator : public testing::TestWithParam<Memory> {};

TEST_P(SharedMemoryCommunicator, KeepsContract) {
  telemetry::Counters counters;
  const auto bootstrap = cluster::make_mpi_bootstrap();
  const auto memory = transport::make_process_shared_memory(*bootstrap, kLimit);
  const auto transport = transport::make_shm(*bootstrap, *memory, kLimit);
  comm::AlgorithmicParts parts;
  parts.transport = transport.get();
  if (GetParam() == Memory::shared) parts.shared_memory = memory.get();
  parts.counters = &counters;
  const auto communicator = comm::make_algorithmic(parts);
  run_all(*communicator);
  if (GetParam() == Memory::none) run_named(*communicator);
}

INSTANTIATE_TEST_SUITE_P(Memories, SharedMemoryCommunicator, testing::Values(Memory::none, Memory::shared),
                         [](const auto& it) { return it.param == Memory::none ? "Network" : "Direct"; });

}  // namespace
}  // namespace kolo::test
