#include "transport/available_memory.h"

#include <gtest/gtest.h>

#include <limits>

#include "support/temporary_folder.h"

namespace kolo::transport {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

// A made-up /proc and /sys/fs/cgroup.
class AvailableMemory : public testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) { folder_.write(path, text); }
  void group(const std::string& path, const std::string& most, std::size_t used, std::size_t cached = 0) {
    write(path + "/memory.max", most + "\n");
    write(path + "/memory.current", std::to_string(used) + "\n");
    write(path + "/memory.stat", "anon 12345\ninactive_file " + std::to_string(cached) + "\nactive_file 0\nslab 1\n");
  }
  [[nodiscard]] std::size_t available() const {
    return available_memory(folder_.path() / "proc", folder_.path() / "cgroup");
  }
  test::TemporaryFolder folder_;
};

TEST_F(AvailableMemory, IsWhatTheKernelSays) {
  write("proc/meminfo",
        "MemTotal:       24000000 kB\nMemFree:        1000 kB\nMemAvailable:   2048 kB\nBuffers: 7 kB\n");
  EXPECT_EQ(available(), 2 * kMiB);
}

TEST_F(AvailableMemory, IsNotLimitedByWhatCannotBeRead) {
  EXPECT_EQ(available(), std::numeric_limits<std::size_t>::max());
}

TEST_F(AvailableMemory, IsNoMoreThanAnyGroupAroundLeaves) {
  write("proc/meminfo", "MemAvailable:   1048576 kB\n");
  write("proc/self/cgroup", "1:name=systemd:/other\n0::/jobs/job7\n");
  group("cgroup/jobs/job7", "max", 500 * kMiB);
  EXPECT_EQ(available(), 1024 * kMiB);
  group("cgroup/jobs", std::to_string(100 * kMiB), 70 * kMiB, 20 * kMiB);
  EXPECT_EQ(available(), 50 * kMiB) << "what only caches files is as good as free";
  group("cgroup/jobs/job7", std::to_string(80 * kMiB), 50 * kMiB);
  EXPECT_EQ(available(), 30 * kMiB);
  group("cgroup/jobs/job7", std::to_string(80 * kMiB), 90 * kMiB);
  EXPECT_EQ(available(), 0U) << "more than the limit is in use, which was lowered";
}

// A container sees its own limit at the top, and perhaps a name of its group that has no meaning inside.
TEST_F(AvailableMemory, IsNoMoreThanAContainerLeaves) {
  write("proc/meminfo", "MemAvailable:   1048576 kB\n");
  write("proc/self/cgroup", "0::/docker/0123abcd\n");
  group("cgroup", std::to_string(64 * kMiB), 4 * kMiB);
  EXPECT_EQ(available(), 60 * kMiB);
}

TEST_F(AvailableMemory, OfThisMachineIsSomething) {
  EXPECT_GT(available_memory(), kMiB);
  EXPECT_LT(available_memory(), std::numeric_limits<std::size_t>::max());
}

}  // namespace
}  // namespace kolo::transport
