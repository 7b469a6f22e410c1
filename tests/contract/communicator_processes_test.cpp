// The contract for groups of processes, under mpirun: plain MPI, our algorithms over MPI, over shared-memory messages,
// and direct.
#include <gtest/gtest.h>

#include <memory>

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

TEST(ProcessContract, Mpi) {
  const auto communicator = comm::make_mpi();
  run_all(*communicator);
}

TEST(ProcessContract, RingOverMpi) {
  telemetry::Counters counters;
  const auto transport = transport::make_mpi(nullptr, counters);
  comm::AlgorithmicParts parts;
  parts.transport = transport.get();
  parts.counters = &counters;
  const auto communicator = comm::make_algorithmic(parts);
  run_all(*communicator);
}

class OneHost : public testing::TestWithParam<bool> {};

TEST_P(OneHost, SharedMemory) {
  telemetry::Counters counters;
  const auto bootstrap = cluster::make_mpi_bootstrap();
  const auto memory = transport::make_process_shared_memory(*bootstrap, kLimit);
  const auto transport = transport::make_shm(*bootstrap, *memory, kLimit);
  comm::AlgorithmicParts parts;
  parts.transport = transport.get();
  parts.shared_memory = GetParam() ? memory.get() : nullptr;
  parts.counters = &counters;
  const auto communicator = comm::make_algorithmic(parts);
  run_all(*communicator);
}

INSTANTIATE_TEST_SUITE_P(RingAndDirect, OneHost, testing::Bool(),
                         [](const auto& it) { return it.param ? "Direct" : "Ring"; });

}  // namespace
}  // namespace kolo::test
