// Memory of processes. Ranks as threads where that is enough; as processes of a user with few rights where it is not.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <thread>

#include "cluster/bootstrap.h"
#include "cluster/make.h"
#include "kolo/error.h"
#include "support/thread_ranks.h"
#include "transport/make.h"

namespace kolo::transport {
namespace {

using namespace std::chrono_literals;

// Of all memory that this process has made, and still has a descriptor of.
std::size_t reserved_bytes() {
  std::size_t bytes = 0;
  for (int fd = 0; fd < 1024; ++fd) {
    std::error_code none;
    const auto target = std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(fd), none);
    struct stat status {};
    if (!target.string().starts_with("/memfd:kolo") || fstat(fd, &status) != 0) continue;
    bytes += static_cast<std::size_t>(status.st_blocks) * 512;
  }
  return bytes;
}

// All of what there is, by ranks of which one comes late: the others must not have taken theirs when it looks.
TEST(ProcessSharedMemory, WhatIsEnoughForAllIsHadWhoeverLooksFirst) {
  constexpr int kRanks = 3;
  constexpr std::size_t kBytes = std::size_t{1} << 20;
  auto bootstraps = cluster::make_inproc_bootstrap(kRanks);
  test::run_ranks(kRanks, [&](int rank) {
    const auto available = [rank] {
      if (rank == 1) std::this_thread::sleep_for(200ms);
      const std::size_t reserved = reserved_bytes();
      return kRanks * kBytes - std::min(kRanks * kBytes, reserved);
    };
    const auto memory = make_process_shared_memory(*bootstraps[static_cast<std::size_t>(rank)], 60s, available);
    EXPECT_EQ(memory->allocate(kBytes, 60s)->slots().size(), std::size_t{kRanks});
  });
}

TEST(ProcessSharedMemory, WhatIsNotEnoughForAllIsReservedByNobody) {
  constexpr std::size_t kBytes = std::size_t{1} << 20;
  auto bootstraps = cluster::make_inproc_bootstrap(2);
  std::atomic<std::size_t> most{0};
  test::run_ranks(2, [&](int rank) {
    const auto available = [&, rank] {
      if (rank == 1) std::this_thread::sleep_for(200ms);
      if (const std::size_t reserved = reserved_bytes(); reserved > 0) most = reserved;
      return 2 * kBytes - static_cast<std::size_t>(rank);
    };
    const auto memory = make_process_shared_memory(*bootstraps[static_cast<std::size_t>(rank)], 60s, available);
    try {
      static_cast<void>(memory->allocate(kBytes, 60s));
      ADD_FAILURE() << "rank 1 has too little";
    } catch (const BackendError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("on rank 1: "));
    }
    EXPECT_NE(memory->allocate(kBytes / 2, 60s), nullptr);
  });
  EXPECT_EQ(most, 0U);
}

// Rank 0 gives up and begins anew while rank 2 has not come: what it says then is about its second call, and the
// others' first one has failed.
TEST(ProcessSharedMemory, ACallThatOneRankHasGivenUpFailsOnAllAndTheNextOneSucceeds) {
  auto bootstraps = cluster::make_inproc_bootstrap(3);
  std::atomic<bool> given_up{false};
  test::run_ranks(3, [&](int rank) {
    const auto memory = make_process_shared_memory(*bootstraps[static_cast<std::size_t>(rank)], 60s);
    if (rank == 2) given_up.wait(false);
    EXPECT_THROW(static_cast<void>(memory->allocate(100, rank == 0 ? 200ms : 60s)), TimeoutError);
    if (rank == 0) {
      given_up = true;
      given_up.notify_all();
    }
    EXPECT_NE(memory->allocate(100, 60s), nullptr);
  });
}

constexpr int kProcesses = 24;
constexpr rlim_t kDescriptors = 128;  // enough for a process, and much less than 24 * 23

// What the processes of the test share.
struct Board {
  pthread_barrier_t barrier;
  std::array<std::array<char, 256>, kProcesses> texts;
  std::array<std::array<char, 256>, kProcesses> errors;
};

class BoardBootstrap final : public cluster::Bootstrap {
 public:
  BoardBootstrap(Board& board, int rank) : board_(board) {
    placement_.rank = placement_.local_rank = rank;
    placement_.size = placement_.local_size = kProcesses;
    ranks_.resize(kProcesses);
    std::iota(ranks_.begin(), ranks_.end(), 0);
  }
  [[nodiscard]] const Placement& placement() const noexcept override { return placement_; }
  [[nodiscard]] const std::vector<Rank>& local_ranks() const noexcept override { return ranks_; }
  [[nodiscard]] std::vector<std::string> allgather(const std::string& mine) override {
    auto& text = board_.texts.at(static_cast<std::size_t>(placement_.rank));
    std::strncpy(text.data(), mine.c_str(), text.size() - 1);
    pthread_barrier_wait(&board_.barrier);
    std::vector<std::string> all;
    for (const auto& each : board_.texts) all.emplace_back(each.data());
    pthread_barrier_wait(&board_.barrier);
    return all;
  }

 private:
  Board& board_;
  Placement placement_;
  std::vector<Rank> ranks_;
};

// Root may have any number of descriptors on their way.
void become_an_ordinary_user() {
  constexpr uid_t kNobody = 65534;
  const rlimit few{kDescriptors, kDescriptors};
  if (setrlimit(RLIMIT_NOFILE, &few) != 0) throw std::runtime_error("no limit");
  if (geteuid() == 0 && (setgid(kNobody) != 0 || setuid(kNobody) != 0)) throw std::runtime_error("no other user");
}

void share_memory(Board& board, int rank) {
  become_an_ordinary_user();
  BoardBootstrap bootstrap(board, rank);
  const auto memory = make_process_shared_memory(bootstrap, 60s);
  if (rank == 0) std::this_thread::sleep_for(300ms);  // who sends before he is waited for has sent by now
  const auto region = memory->allocate(100, 60s);
  region->slots()[static_cast<std::size_t>(rank)][7] = static_cast<std::byte>(rank + 1);
  static_cast<void>(bootstrap.allgather("written"));
  for (std::size_t r = 0; r < kProcesses; ++r) {
    if (region->slots()[r][7] != static_cast<std::byte>(r + 1)) throw std::runtime_error("memory of somebody else");
  }
}

TEST(ProcessSharedMemory, ManyRanksOfAnOrdinaryUserNeedNoMoreDescriptorsThanOneProcessMayHave) {
  void* const shared = mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  auto& board = *static_cast<Board*>(shared);
  pthread_barrierattr_t attributes;
  pthread_barrierattr_init(&attributes);
  pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_barrier_init(&board.barrier, &attributes, kProcesses);
  std::vector<pid_t> children;
  for (int rank = 0; rank < kProcesses; ++rank) {
    children.push_back(fork());
    if (children.back() != 0) continue;
    alarm(90);
    try {
      share_memory(board, rank);
      _exit(0);
    } catch (const std::exception& error) {
      auto& text = board.errors.at(static_cast<std::size_t>(rank));
      std::strncpy(text.data(), error.what(), text.size() - 1);
      _exit(1);
    }
  }
  for (int rank = 0; rank < kProcesses; ++rank) {
    int status = 0;
    ASSERT_EQ(waitpid(children[static_cast<std::size_t>(rank)], &status, 0), children[static_cast<std::size_t>(rank)]);
    EXPECT_EQ(status, 0) << "rank " << rank << ": " << board.errors.at(static_cast<std::size_t>(rank)).data();
  }
  munmap(shared, sizeof(Board));
}

}  // namespace
}  // namespace kolo::transport
