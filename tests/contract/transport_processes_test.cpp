// The Transport contract with ranks as processes under mpirun: shm, tcp and mpi.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <mpi.h>
#include <sys/resource.h>

#include "base/unique_fd.h"
#include "cluster/make.h"
#include "contract/transport_contract.h"
#include "transport/make.h"
#include "transport/mpi_pieces.h"

namespace kolo {
namespace {

using namespace std::chrono_literals;

// Runs the case on all ranks; if one rank fails, the others do not wait for it.
void run_on_all(const test::TransportCase& a_case, transport::Transport& end) {
  SCOPED_TRACE(a_case.name);
  EXPECT_NO_THROW(a_case.run(end));
  EXPECT_NO_THROW(test::meet(end));
}

TEST(TransportOfProcesses, ShmKeepsContract) {
  const auto bootstrap = cluster::make_mpi_bootstrap();
  const auto memory = transport::make_process_shared_memory(*bootstrap, 30s);
  const auto end = transport::make_shm(*bootstrap, *memory, 30s);
  ASSERT_EQ(end->rank(), bootstrap->placement().local_rank);
  for (const auto& a_case : test::transport_cases()) run_on_all(a_case, *end);
}

TEST(TransportOfProcesses, MpiKeepsContractAndCountsBytes) {
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

TEST(TransportOfProcesses, TcpKeepsContract) {
  telemetry::Counters counters;
  const auto bootstrap = cluster::make_mpi_bootstrap();
  const auto end = transport::make_tcp(*bootstrap, {}, counters);
  ASSERT_EQ(end->rank(), bootstrap->placement().rank);
  for (const auto& a_case : test::transport_cases()) run_on_all(a_case, *end);
}

// Messages of one piece, of several, and of a whole number of pieces.
TEST(TransportOfProcesses, MpiInPiecesKeepsContract) {
  telemetry::Counters counters;
  const auto end = transport::make_mpi_in_pieces(nullptr, counters, 4096);
  for (const auto& a_case : test::transport_cases()) run_on_all(a_case, *end);
}

// MPI writes into the memory of a receive at any time, so an abandoned receive must be cancelled.
TEST(TransportOfProcesses, MpiDoesNotWriteToAbandonedReceive) {
  telemetry::Counters counters;
  const auto end = transport::make_mpi(nullptr, counters);
  const std::size_t size = transport::kMpiPieceBytes;  // room for a whole piece: MPI gets this very memory
  const test::Bytes first = test::pattern(end->rank(), test::next_of(*end), 1, size - 1);
  const test::Bytes second = test::pattern(end->rank(), test::next_of(*end), 2, size - 2);
  test::Bytes given_up(size + 100);
  test::Bytes in(size + 100);
  auto abandoned = end->receive(test::previous_of(*end), 31, given_up);
  const auto receive = end->receive(test::previous_of(*end), 31, in);
  abandoned.reset();
  test::meet(*end);  // nobody sends before everybody has given up
  const auto send_first = end->send(test::next_of(*end), 31, first);
  const auto send_second = end->send(test::next_of(*end), 31, second);
  test::finish(*end, *receive);
  test::finish(*end, *send_first);
  test::finish(*end, *send_second);
  EXPECT_EQ(given_up, test::Bytes(size + 100));
  in.resize(receive->size());
  EXPECT_EQ(in, test::pattern(test::previous_of(*end), end->rank(), 2, size - 2));
}

std::vector<test::Bytes> messages_to_next(const transport::Transport& end, const std::vector<std::size_t>& sizes) {
  std::vector<test::Bytes> messages;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    messages.push_back(test::pattern(end.rank(), test::next_of(end), static_cast<int>(i), sizes[i]));
  }
  return messages;
}

// Expects all messages of the previous rank but the first, with every byte.
void expect_all_but_the_first(transport::Transport& end,
                              const std::vector<std::unique_ptr<transport::Transfer>>& receives,
                              const std::vector<std::size_t>& sizes, std::vector<test::Bytes>& in) {
  for (std::size_t i = 1; i < sizes.size(); ++i) {
    test::finish(end, *receives[i]);
    ASSERT_EQ(receives[i]->size(), sizes[i]);
    in[i].resize(sizes[i]);
    EXPECT_EQ(in[i], test::pattern(test::previous_of(end), end.rank(), static_cast<int>(i), sizes[i])) << i;
  }
}

// Pieces that arrive in the receive of another message are moved to their own.
TEST(TransportOfProcesses, MpiDeliversMessagesAfterMessageOfTooManyPieces) {
  telemetry::Counters counters;
  constexpr std::size_t kPiece = 4096;
  const auto end = transport::make_mpi_in_pieces(nullptr, counters, kPiece);
  const std::vector<std::size_t> sizes{3 * kPiece + 5, 50, kPiece - 1, kPiece, 7};
  const std::vector<std::size_t> room{kPiece, 60, kPiece, kPiece, kPiece + 9};
  const std::vector<test::Bytes> out = messages_to_next(*end, sizes);
  std::vector<test::Bytes> in;
  std::vector<std::unique_ptr<transport::Transfer>> transfers;
  for (const auto bytes : room) in.emplace_back(bytes);
  for (auto& memory : in) transfers.push_back(end->receive(test::previous_of(*end), 32, memory));
  for (const auto& memory : out) transfers.push_back(end->send(test::next_of(*end), 32, memory));
  EXPECT_THROW(test::finish(*end, *transfers.front()), BackendError);
  for (std::size_t i = 1; i < transfers.size(); ++i) test::finish(*end, *transfers[i]);
  expect_all_but_the_first(*end, transfers, sizes, in);
}

// The pieces of the first message fill the receives of later messages, so the buffer of the last receive holds a piece
// of another message. The next piece must not overwrite it. All pieces arrive before a rank tests its receives.
TEST(TransportOfProcesses, MpiDoesNotOverwritePieceThatWasNotTaken) {
  telemetry::Counters counters;
  constexpr std::size_t kPiece = 4096;
  const auto end = transport::make_mpi_in_pieces(nullptr, counters, kPiece);
  const std::vector<std::size_t> sizes{3 * kPiece + 5, 50, 60, 70, 80};
  const std::vector<test::Bytes> out = messages_to_next(*end, sizes);
  std::vector<test::Bytes> in(sizes.size(), test::Bytes(kPiece));
  std::vector<std::unique_ptr<transport::Transfer>> receives;
  std::vector<std::unique_ptr<transport::Transfer>> sends;
  for (auto& memory : in) receives.push_back(end->receive(test::previous_of(*end), 34, memory));
  const auto send = [&](std::size_t i) { sends.push_back(end->send(test::next_of(*end), 34, out[i])); };
  const auto let_it_come = [] {
    for (int i = 0; i < 20; ++i) MPI_Barrier(MPI_COMM_WORLD);
  };
  send(0);
  let_it_come();
  EXPECT_THROW(test::finish(*end, *receives[0]), BackendError);
  for (std::size_t i = 1; i < sizes.size(); ++i) send(i);
  let_it_come();
  expect_all_but_the_first(*end, receives, sizes, in);
  for (auto& sent : sends) test::finish(*end, *sent);
}

TEST(ProcessSharedMemory, IsZeroAtFirstAndEqualOnAllRanks) {
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

TEST(ProcessSharedMemory, TooLargeAllocationIsErrorOnEveryRank) {
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

// Opens all file descriptors that this process may have, but one.
std::vector<base::UniqueFd> take_all_descriptors_but_one() {
  std::vector<base::UniqueFd> taken;
  while (true) {
    base::UniqueFd descriptor(open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (!descriptor) break;
    taken.push_back(std::move(descriptor));
  }
  taken.pop_back();
  return taken;
}

// The last rank can create memory, but has no descriptor left for the memory of the others. The call ends on all ranks
// with this error, before the timeout.
TEST(ProcessSharedMemory, FailedMappingOfOneRankIsErrorOnEveryRank) {
  const auto bootstrap = cluster::make_mpi_bootstrap();
  const Rank last = bootstrap->placement().size - 1;
  const auto memory = transport::make_process_shared_memory(*bootstrap, 30s);
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  {
    std::vector<base::UniqueFd> taken;
    if (bootstrap->placement().rank == last) {
      const rlimit few{std::min<rlim_t>(limit.rlim_cur, 512), limit.rlim_max};
      ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
      taken = take_all_descriptors_but_one();
    }
    try {
      static_cast<void>(memory->allocate(1000, 30s));
      ADD_FAILURE() << "there was no descriptor for it";
    } catch (const BackendError& error) {
      EXPECT_NE(std::string(error.what()).find("on rank " + std::to_string(last)), std::string::npos) << error.what();
    }
  }
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_NE(memory->allocate(100, 30s), nullptr);
}

TEST(MpiBootstrap, UsesRanksOfGivenCommunicator) {
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
