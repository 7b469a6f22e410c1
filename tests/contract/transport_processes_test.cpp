// The Transport contract with ranks as processes under mpirun: shm and mpi.
#include <gtest/gtest.h>
#include <mpi.h>

#include "cluster/make.h"
#include "contract/transport_contract.h"
#include "transport/make.h"
#include "transport/mpi_pieces.h"

namespace kolo {
namespace {

using namespace std::chrono_literals;

// Whether all ranks are content; a rank that failed does not leave the others waiting.
void run_on_all(const test::TransportCase& a_case, transport::Transport& end) {
  SCOPED_TRACE(a_case.name);
  EXPECT_NO_THROW(a_case.run(end));
  EXPECT_NO_THROW(test::meet(end));
}

TEST(TransportProcesses, Shm) {
  const auto bootstrap = cluster::make_mpi_bootstrap();
  const auto memory = transport::make_process_shared_memory(*bootstrap, 30s);
  const auto end = transport::make_shm(*bootstrap, *memory, 30s);
  ASSERT_EQ(end->rank(), bootstrap->placement().local_rank);
  for (const auto& a_case : test::transport_cases()) run_on_all(a_case, *end);
}

TEST(TransportProcesses, Mpi) {
  telemetry::Counters counters;
  const auto end = transport::make_mpi(nullptr, counters);
  for (const auto& a_case : test::transport_cases()) run_on_all(a_case, *end);
  EXPECT_GT(counters.messages_sent.value(), 0U);
  const auto before = counters.bytes_on_wire.value();
  const test::Bytes out(1000);
  test::Bytes in(1000);
  const auto receive = end->receive(test::previous_of(*end), 1, in);
  test::finish(*end, *end->send(test::next_of(*end), 1, out));
  test::finish(*end, *receive);
  EXPECT_EQ(counters.bytes_on_wire.value() - before, 1000U);
}

// Messages of one piece, of several, and of a whole number of pieces.
TEST(TransportProcesses, MpiInPieces) {
  telemetry::Counters counters;
  const auto end = transport::make_mpi_in_pieces(nullptr, counters, 4096);
  for (const auto& a_case : test::transport_cases()) run_on_all(a_case, *end);
}

TEST(TransportProcesses, SharedMemoryIsTheSameForAllAndZeroAtFirst) {
  const auto bootstrap = cluster::make_mpi_bootstrap();
  const auto& place = bootstrap->placement();
  const auto memory = transport::make_process_shared_memory(*bootstrap, 30s);
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{4096}, std::size_t{3'000'001}}) {
    const auto region = memory->allocate(bytes, 30s);
    ASSERT_EQ(region->slots().size(), static_cast<std::size_t>(place.local_size));
    const auto mine = region->slots()[static_cast<std::size_t>(place.local_rank)];
    ASSERT_EQ(mine.size(), bytes);
    ASSERT_EQ(reinterpret_cast<std::uintptr_t>(mine.data()) % 4096, 0U);
    for (const std::byte byte : mine) ASSERT_EQ(byte, std::byte{0});
    const auto wanted = test::pattern(place.rank, 0, 1, bytes);
    std::copy(wanted.begin(), wanted.end(), mine.begin());
    static_cast<void>(bootstrap->allgather("written"));
    for (int r = 0; r < place.local_size; ++r) {
      const auto theirs = region->slots()[static_cast<std::size_t>(r)];
      const auto expected = test::pattern(bootstrap->local_ranks()[static_cast<std::size_t>(r)], 0, 1, bytes);
      EXPECT_TRUE(std::equal(theirs.begin(), theirs.end(), expected.begin(), expected.end())) << "slot " << r;
    }
  }
}

TEST(TransportProcesses, MoreMemoryThanThereIsIsAnErrorOnEveryRank) {
  const auto bootstrap = cluster::make_mpi_bootstrap();
  const auto memory = transport::make_process_shared_memory(*bootstrap, 30s);
  try {
    static_cast<void>(memory->allocate(std::size_t{1} << 50, 30s));
    ADD_FAILURE() << "a petabyte was had";
  } catch (const BackendError& error) {
    EXPECT_NE(std::string(error.what()).find(std::to_string(std::size_t{1} << 50)), std::string::npos) << error.what();
  }
  EXPECT_NE(memory->allocate(100, 30s), nullptr);
}

TEST(TransportProcesses, BootstrapOverTheUsersCommunicator) {
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm backwards = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, 0, size - rank, &backwards);
  {
    const auto bootstrap = cluster::make_mpi_bootstrap(&backwards);
    EXPECT_EQ(bootstrap->placement().rank, size - 1 - rank);
    EXPECT_EQ(bootstrap->placement().size, size);
    const auto all = bootstrap->allgather(std::string(static_cast<std::size_t>(rank) * 100'000, 'x'));
    for (int r = 0; r < size; ++r) {
      EXPECT_EQ(all[static_cast<std::size_t>(r)].size(), static_cast<std::size_t>(size - 1 - r) * 100'000);
    }
  }
  MPI_Comm_free(&backwards);
}

}  // namespace
}  // namespace kolo
