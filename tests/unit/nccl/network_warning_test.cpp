// That InfiniBand is there and not used is said once, by rank 0, after NCCL has begun: make_nccl() on made-up hosts.
#include <gmock/gmock.h>

#include <cstdlib>
#include <mutex>

#include "nccl/network.h"
#include "support/temporary_folder.h"
#include "support/thread_ranks.h"
#include "unit/nccl/nccl_end.h"

namespace kolo::test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// A host's /sys and /proc.
class Machine {
 public:
  explicit Machine(bool infiniband, bool open = false) {
    if (infiniband) folder_.write("sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n");
    if (!open) return;
    std::filesystem::create_directories(folder_.path() / "proc/self/fd");
    std::filesystem::create_symlink("/dev/infiniband/uverbs0", folder_.path() / "proc/self/fd/7");
  }
  [[nodiscard]] const std::filesystem::path& root() const { return folder_.path(); }
  // NCCL's library for it is on this machine.
  [[nodiscard]] bool has_verbs() const { return nccl::find_network(root() / "sys/class/infiniband").verbs; }

 private:
  TemporaryFolder folder_;
};

struct Line {
  int rank;
  std::string text;
  int communicators;  // when it was said
};

// The warnings of two ranks, on a host each or both on one.
std::vector<Line> warnings(const std::vector<const Machine*>& machines, bool one_host = false) {
  NcclRanks ranks(2);
  std::mutex lock;
  std::vector<Line> lines;
  run_ranks(2, [&](int rank) {
    nccl::NcclParts parts = ranks.parts(rank);
    parts.host = one_host ? "a" : (rank == 0 ? "a" : "b");
    parts.system_root = machines[static_cast<std::size_t>(rank)]->root();
    parts.log = telemetry::Logger(LogLevel::warn, [&, rank](LogLevel, std::string_view line) {
      const std::lock_guard held(lock);
      lines.push_back({rank, std::string(line), ranks.nccl.live_communicators()});
    });
    const auto made = nccl::make_nccl(parts);
    made->barrier(std::chrono::seconds(60));
  });
  return lines;
}

TEST(SocketWarning, NothingIsSaidWithoutInfiniBandOrOnOneHost) {
  const Machine none(false);
  const Machine some(true);
  EXPECT_THAT(warnings({&none, &none}), IsEmpty());
  EXPECT_THAT(warnings({&some, &some}, true), IsEmpty());
}

// By rank 0, for all hosts, when there is a communicator.
TEST(SocketWarning, SaysOnceWhatStandsInTheWay) {
  const Machine some(true);
  ASSERT_EQ(::setenv("NCCL_IB_DISABLE", "1", 1), 0);
  const auto lines = warnings({&some, &some});
  ASSERT_EQ(::unsetenv("NCCL_IB_DISABLE"), 0);
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_THAT(lines[0].text, AllOf(HasSubstr("a, b have InfiniBand (mlx5_0)"), HasSubstr("NCCL_IB_DISABLE=1 is set")));
  EXPECT_EQ(lines[0].rank, 0);
  EXPECT_GE(lines[0].communicators, 1);
}

// Of another host rank 0 knows what that host's ranks have said.
TEST(SocketWarning, NamesTheHostThatHasIt) {
  const Machine none(false);
  const Machine some(true);
  ASSERT_EQ(::setenv("NCCL_NET", "Socket", 1), 0);
  const auto lines = warnings({&none, &some});
  ASSERT_EQ(::unsetenv("NCCL_NET"), 0);
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_THAT(lines[0].text, AllOf(HasSubstr("b has InfiniBand (mlx5_0)"), HasSubstr("NCCL_NET=Socket is set")));
  EXPECT_EQ(lines[0].rank, 0);
}

TEST(SocketWarning, LooksAtWhatNcclHasOpened) {
  const Machine closed(true);
  const Machine open(true, true);
  const char* const reason = closed.has_verbs() ? "a has InfiniBand (mlx5_0), but NCCL has opened none of the devices"
                                                : "hosts a, b have InfiniBand (mlx5_0), but NCCL will use sockets";
  EXPECT_THAT(warnings({&closed, &open}), ElementsAre(testing::Field(&Line::text, HasSubstr(reason))));
  if (closed.has_verbs()) {
    EXPECT_THAT(warnings({&open, &open}), IsEmpty());
  }
}

}  // namespace
}  // namespace kolo::test
