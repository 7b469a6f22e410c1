// The contract for groups of processes, under mpirun: plain MPI, our algorithms over MPI, over shared-memory messages,
// and direct.
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

enum class Way { network, lanes };
class OneHost : public testing::TestWithParam<Way> {};

TEST_P(OneHost, SharedMemory) {
  telemetry::Counters counters;
  const auto bootstrap = cluster::make_mpi_bootstrap();
  const auto memory = transport::make_process_shared_memory(*bootstrap, kLimit);
  const auto transport = transport::make_shm(*bootstrap, *memory, kLimit);
  comm::AlgorithmicParts parts;
  parts.transport = transport.get();
  if (GetParam() != Way::network) parts.shared_memory = memory.get();
  parts.counters = &counters;
  const auto communicator = comm::make_algorithmic(parts);
  run_all(*communicator);
  if (GetParam() == Way::network) run_named(*communicator);
}

INSTANTIATE_TEST_SUITE_P(Ways, OneHost, testing::Values(Way::network, Way::lanes),
                         [](const auto& it) { return it.param == Way::network ? "Network" : "Lanes"; });

}  // namespace
}  // namespace kolo::test
