#include "base/cores.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <fstream>
#include <numeric>
#include <thread>

#include "support/temporary_folder.h"

namespace kolo::base {
namespace {

namespace fs = std::filesystem;

std::vector<int> first_cpus(int count) {
  std::vector<int> cpus(static_cast<std::size_t>(count));
  std::iota(cpus.begin(), cpus.end(), 0);
  return cpus;
}

// A process's cgroups, and the files of these.
class CgroupQuota : public testing::Test {
 protected:
  void write(const fs::path& file, const std::string& text) const {
    fs::create_directories((root() / file).parent_path());
    std::ofstream(root() / file) << text;
  }
  [[nodiscard]] std::optional<int> quota(const std::string& cgroups) const {
    write("cgroup", cgroups);
    return cgroup_quota({root() / "cgroup", root() / "fs"});
  }

 private:
  [[nodiscard]] const fs::path& root() const { return folder_.path(); }
  test::TemporaryFolder folder_;
};

TEST_F(CgroupQuota, NoneWithoutFiles) {
  EXPECT_EQ(cgroup_quota({"/no/such/file", "/no/such/folder"}), std::nullopt);
  EXPECT_EQ(quota("0::/a/b\n"), std::nullopt);
  EXPECT_EQ(quota("nonsense\n:\n::\n"), std::nullopt);
}

TEST_F(CgroupQuota, Version2IsRoundedUp) {
  write("fs/job/cpu.max", "150000 100000\n");
  EXPECT_EQ(quota("0::/job\n"), 2);
  write("fs/job/cpu.max", "200000 100000\n");
  EXPECT_EQ(quota("0::/job\n"), 2);
  write("fs/job/cpu.max", "1000 100000\n");
  EXPECT_EQ(quota("0::/job\n"), 1);
}

TEST_F(CgroupQuota, Version2WithoutALimitOrUnreadableIsNone) {
  for (const char* text : {"max 100000\n", "", "0 100000\n", "100000 0\n", "-1 100000\n", "abc\n"}) {
    write("fs/job/cpu.max", text);
    EXPECT_EQ(quota("0::/job\n"), std::nullopt) << text;
  }
}

TEST_F(CgroupQuota, SmallestOfAllCgroupsAroundItCounts) {
  write("fs/cpu.max", "800000 100000\n");
  write("fs/slice/cpu.max", "300000 100000\n");
  write("fs/slice/job/cpu.max", "max 100000\n");
  write("fs/slice/job/rank/cpu.max", "500000 100000\n");
  EXPECT_EQ(quota("0::/slice/job/rank\n"), 3);
  EXPECT_EQ(quota("0::/\n"), 8);
  EXPECT_EQ(quota("0::/other/place\n"), 8);
  EXPECT_EQ(quota("0::/../slice\n"), 3);
}

TEST_F(CgroupQuota, Version1OfTheControllerCpu) {
  write("fs/cpu,cpuacct/docker/cpu.cfs_quota_us", "250000\n");
  write("fs/cpu,cpuacct/docker/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(quota("3:cpuset:/other\n4:cpu,cpuacct:/docker/id\n"), 3);
  EXPECT_EQ(quota("4:cpuset:/docker\n"), std::nullopt);
  write("fs/cpu,cpuacct/docker/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(quota("4:cpu,cpuacct:/docker\n"), std::nullopt);
}

TEST_F(CgroupQuota, Version1BesideVersion2) {
  write("fs/cpu/cpu.cfs_quota_us", "400000\n");
  write("fs/cpu/cpu.cfs_period_us", "100000\n");
  write("fs/unified/cpu.max", "600000 100000\n");
  EXPECT_EQ(quota("1:cpu:/\n0::/\n"), 4);
}

TEST(SharedCores, UnionOfTheMasks) {
  EXPECT_EQ(shared_cores(std::vector<CpuLimits>{{{1}, {}}, {{1}, {}}}), 1);
  EXPECT_EQ(shared_cores(std::vector<CpuLimits>{{{0, 1}, {}}, {{1, 2}, {}}, {{1100}, {}}}), 4);
  EXPECT_EQ(shared_cores(std::vector<CpuLimits>{{}}), 1);
}

TEST(SharedCores, CappedByTheLargestQuotaIfAllRanksHaveOne) {
  EXPECT_EQ(shared_cores(std::vector<CpuLimits>{{first_cpus(8), 2}}), 2);
  EXPECT_EQ(shared_cores(std::vector<CpuLimits>{{first_cpus(8), 2}, {first_cpus(8), 3}}), 3);
  EXPECT_EQ(shared_cores(std::vector<CpuLimits>{{first_cpus(8), 2}, {first_cpus(8), {}}}), 8);
  EXPECT_EQ(shared_cores(std::vector<CpuLimits>{{first_cpus(2), 4}}), 2);
}

TEST(ThreadsOfRank, ShareOfTheCoresWithinItsMask) {
  const CpuLimits all{first_cpus(8), {}};
  EXPECT_EQ(threads_of_rank(8, 2, all, std::nullopt), 4);
  EXPECT_EQ(threads_of_rank(8, 3, all, std::nullopt), 2);
  EXPECT_EQ(threads_of_rank(2, 4, all, std::nullopt), 1);
  EXPECT_EQ(threads_of_rank(8, 2, {{7}, {}}, std::nullopt), 1);
}

TEST(ThreadsOfRank, OmpNumThreadsCountsIfItIsValid) {
  const CpuLimits all{first_cpus(8), {}};
  EXPECT_EQ(threads_of_rank(8, 2, all, "3"), 3);
  EXPECT_EQ(threads_of_rank(8, 2, all, "16"), 16);
  EXPECT_EQ(threads_of_rank(8, 2, all, "0"), 4);
  EXPECT_EQ(threads_of_rank(8, 2, all, ""), 4);
}

TEST(OmpNumThreads, FirstNumberOfAValidList) {
  EXPECT_EQ(parse_omp_num_threads("4"), 4);
  EXPECT_EQ(parse_omp_num_threads("4,2"), 4);
  EXPECT_EQ(parse_omp_num_threads(" 4 , 2\n"), 4);
  for (const char* text : {"", " ", "0", "-1", "abc", "4x", "4,", ",4", "4,0", "4;2", "3.5", "99999999999"}) {
    EXPECT_EQ(parse_omp_num_threads(text), std::nullopt) << text;
  }
}

TEST(CpuLimitsOfThisProcess, FollowTheAffinityMask) {
  const std::vector<int> before = cpu_limits().cpus;
  ASSERT_FALSE(before.empty());
  std::vector<int> bound;
  std::thread([&] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<std::size_t>(before.back()), &one);
    if (sched_setaffinity(0, sizeof one, &one) == 0) bound = cpu_limits().cpus;
  }).join();
  EXPECT_EQ(bound, std::vector<int>{before.back()});
}

TEST(CpusText, SaysRangesAndIsReadBack) {
  for (const std::vector<int>& cpus : {std::vector<int>{}, {5}, {0, 1, 2, 3, 8}, {1, 3, 4}, {0, 1023, 1024, 4000}}) {
    EXPECT_EQ(parse_cpus(cpus_text(cpus)), cpus);
  }
  EXPECT_EQ(cpus_text({0, 1, 2, 3, 8}), "0-3,8");
  EXPECT_EQ(parse_cpus("3-1,x,2,-4,1-99999999"), std::vector<int>{2});
}

}  // namespace
}  // namespace kolo::base
