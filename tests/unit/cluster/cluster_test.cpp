#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>

#include "base/cores.h"
#include "base/environment.h"
#include "base/host_name.h"
#include "cluster/abstract_name.h"
#include "cluster/launcher.h"
#include "cluster/make.h"
#include "cluster/placement.h"
#include "kolo/error.h"
#include "support/thread_ranks.h"

namespace kolo::cluster {
namespace {

TEST(Placement, HostsAreNumberedByTheirLowestRank) {
  const std::vector<std::string> keys{"b", "a", "b", "c", "a"};
  const Place here = place(4, keys);
  EXPECT_EQ(here.placement.rank, 4);
  EXPECT_EQ(here.placement.size, 5);
  EXPECT_EQ(here.placement.local_rank, 1);
  EXPECT_EQ(here.placement.local_size, 2);
  EXPECT_EQ(here.placement.device, 1);
  EXPECT_EQ(here.placement.cross_rank, 1);
  EXPECT_EQ(here.placement.cross_size, 3);
  EXPECT_EQ(here.local_ranks, (std::vector<Rank>{1, 4}));
}

TEST(Placement, RanksOfAHostShareTheUnionOfTheirMasks) {
  base::unset_environment("OMP_NUM_THREADS");
  const std::vector<std::string> texts{"b\t0-3\t", "a\t0-1\t3", "a\t2-7\t4", "b\t0-3\t", "a\t6-7\t"};
  EXPECT_EQ(place_process(0, texts).placement.local_cores, 4);
  EXPECT_EQ(place_process(0, texts).placement.threads, 2);
  EXPECT_EQ(place_process(1, texts).placement.local_cores, 8);  // rank 4 has no quota
  EXPECT_EQ(place_process(2, texts).placement.threads, 2);
  EXPECT_EQ(place_process(2, texts).local_ranks, (std::vector<Rank>{1, 2, 4}));
  const std::vector<std::string> limited{"a\t0-63\t3", "a\t0-63\t4"};
  EXPECT_EQ(place_process(0, limited).placement.local_cores, 4);
}

TEST(Placement, OmpNumThreadsIsTheNumberOfThreads) {
  base::set_environment("OMP_NUM_THREADS", "3,1");
  EXPECT_EQ(place_process(0, std::vector<std::string>{"a\t0-7\t"}).placement.threads, 3);
  EXPECT_EQ(make_single_bootstrap()->placement().threads, 3);
  EXPECT_EQ(make_inproc_bootstrap(2).front()->placement().threads, 3);
  base::unset_environment("OMP_NUM_THREADS");
}

TEST(Placement, ProcessTellsItsOwnLimits) {
  const Place here = place_process(0, std::vector<std::string>{process_text()});
  const base::CpuLimits mine = base::cpu_limits();
  EXPECT_EQ(here.placement.local_cores, base::shared_cores({&mine, 1}));
  EXPECT_EQ(make_single_bootstrap()->placement().local_cores, here.placement.local_cores);
  EXPECT_EQ(make_inproc_bootstrap({0, 1}).back()->placement().local_cores, here.placement.local_cores);
}

// host_key() of a child with namespaces of its own; empty when it may not have them.
std::string key_of_child(int namespaces) {
  std::array<int, 2> ends{};
  EXPECT_EQ(pipe(ends.data()), 0);
  const pid_t child = fork();
  if (child == 0) {
    if (namespaces != 0 && unshare(namespaces) != 0) _exit(1);
    const pid_t grandchild = fork();  // the first that is in the new namespace of processes
    if (grandchild == 0) {
      const std::string key = base::host_key();
      _exit(write(ends[1], key.data(), key.size()) == static_cast<ssize_t>(key.size()) ? 0 : 1);
    }
    waitpid(grandchild, nullptr, 0);
    _exit(0);
  }
  close(ends[1]);
  std::array<char, 1024> key{};
  const ssize_t length = read(ends[0], key.data(), key.size());
  close(ends[0]);
  waitpid(child, nullptr, 0);
  return {key.data(), static_cast<std::size_t>(std::max<ssize_t>(length, 0))};
}

TEST(HostName, ProcessesThatDoNotKnowEachOthersNumbersAreOnOtherHosts) {
  EXPECT_EQ(key_of_child(0), base::host_key());
  const std::string apart = key_of_child(CLONE_NEWPID);
  if (apart.empty()) GTEST_SKIP() << "no right to namespaces here";
  EXPECT_NE(apart, base::host_key());
}

TEST(Launcher, RefusesAWorldOfAnotherSizeThanPromised) {
  const auto check = [](int found, std::map<std::string, std::string> values) {
    check_world_size(found, [&](const std::string& name) {
      return values.contains(name) ? std::optional(values[name]) : std::nullopt;
    });
  };
  EXPECT_NO_THROW(check(1, {}));
  EXPECT_NO_THROW(check(2, {{"OMPI_COMM_WORLD_SIZE", "2"}, {"SLURM_NTASKS", "8"}}));
  EXPECT_NO_THROW(check(2, {{"WORLD_SIZE", "two"}}));
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "WORLD_SIZE", "SLURM_NTASKS"}) {
    EXPECT_THROW(check(1, {{name, "4"}}), UsageError) << name;
  }
}

TEST(Launcher, RefusesToBeAloneWhereSeveralArePromised) {
  const auto check = [](const char* value) {
    check_alone([&](const std::string& name) {
      return name == "WORLD_SIZE" && value != nullptr ? std::optional<std::string>(value) : std::nullopt;
    });
  };
  for (const char* fine : {static_cast<const char*>(nullptr), "1", "", "two"}) EXPECT_NO_THROW(check(fine));
  EXPECT_THROW(check("2"), UsageError);
}

TEST(Launcher, SaysTheNumberOnTheHost) {
  const auto number = [](std::map<std::string, std::string> values) {
    return number_on_host(
        [&](const std::string& name) { return values.contains(name) ? std::optional(values[name]) : std::nullopt; });
  };
  EXPECT_EQ(number({}), std::nullopt);
  EXPECT_EQ(number({{"OMPI_COMM_WORLD_LOCAL_RANK", "3"}, {"SLURM_LOCALID", "0"}}), 3);
  EXPECT_EQ(number({{"OMPI_COMM_WORLD_LOCAL_RANK", "-1"}, {"SLURM_LOCALID", "2"}}), 2);
  EXPECT_EQ(number({{"SLURM_LOCALID", "two"}}), std::nullopt);
}

Lookup lookup_in(const std::map<std::string, std::string>& values) {
  return [values](const std::string& name) {
    return values.contains(name) ? std::optional(values.at(name)) : std::nullopt;
  };
}

TEST(LaunchedRank, DiffersBetweenJobsOfOneMachine) {
  using Values = std::map<std::string, std::string>;
  const auto of = [](const Values& values) { return launched_rank(lookup_in(values)); };
  EXPECT_FALSE(of({}));
  EXPECT_FALSE(of({{"PMIX_NAMESPACE", "1"}}));
  EXPECT_FALSE(of({{"PMI_RANK", "1"}, {"PMI_FD", "99999"}}));
  EXPECT_FALSE(of({{"SLURM_JOB_ID", "7"}, {"SLURM_PROCID", "1"}}));  // a batch script
  const auto first = of({{"PMIX_NAMESPACE", "1"}, {"PMIX_SERVER_URI2", "a:1"}, {"PMIX_RANK", "3"}});
  const auto peer = of({{"PMIX_NAMESPACE", "1"}, {"PMIX_SERVER_URI2", "a:1"}, {"PMIX_RANK", "4"}});
  const auto other = of({{"PMIX_NAMESPACE", "1"}, {"PMIX_SERVER_URI2", "a:2"}, {"PMIX_RANK", "3"}});
  const Values step{{"SLURM_JOB_ID", "7"}, {"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "2"}};
  ASSERT_TRUE(first && peer && other && of(step));
  EXPECT_EQ(first->rank, 3);
  EXPECT_EQ(peer->rank, 4);
  EXPECT_EQ(first->job, peer->job);
  EXPECT_NE(first->job, other->job);
  EXPECT_EQ(of(step)->rank, 2);
}

TEST(LauncherVariables, OnlyThoseThatAreSetAndMatter) {
  const auto of = [](const std::map<std::string, std::string>& values) {
    return launcher_variables(lookup_in(values));
  };
  EXPECT_EQ(of({{"SLURM_NTASKS", "4"}, {"WORLD_SIZE", "1"}, {"SLURM_PROCID", "0"}}), std::vector<std::string>{});
  EXPECT_EQ(of({{"WORLD_SIZE", "2"}, {"PMIX_RANK", "0"}, {"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "0"}}),
            (std::vector<std::string>{"PMIX_RANK", "SLURM_PROCID", "WORLD_SIZE"}));
}

TEST(AbstractName, HeldByOneDescriptorUntilItIsClosed) {
  const std::string name = "kolo-test-" + std::to_string(getpid());
  EXPECT_FALSE(is_name_held(name));
  auto first = hold_name(name);
  EXPECT_TRUE(first);
  EXPECT_TRUE(is_name_held(name));
  EXPECT_FALSE(is_name_held(name + "0"));
  EXPECT_FALSE(hold_name(name));
  first.reset();
  EXPECT_FALSE(is_name_held(name));
  EXPECT_TRUE(hold_name(name));
}

TEST(Bootstrap, SingleIsAWorldOfOne) {
  const auto single = make_single_bootstrap();
  EXPECT_EQ(single->placement().size, 1);
  EXPECT_EQ(single->allgather("x"), std::vector<std::string>{"x"});
}

TEST(Bootstrap, ThreadsGatherInRankOrderAgainAndAgain) {
  auto all = make_inproc_bootstrap(5);
  test::run_ranks(5, [&](int rank) {
    for (int round = 0; round < 100; ++round) {
      const auto texts = all[static_cast<std::size_t>(rank)]->allgather(std::to_string(rank * 1000 + round));
      for (int r = 0; r < 5; ++r) EXPECT_EQ(texts[static_cast<std::size_t>(r)], std::to_string(r * 1000 + round));
    }
  });
}

TEST(Bootstrap, ListInBracesIsAListOfHosts) {
  EXPECT_EQ(make_inproc_bootstrap({0}).size(), 1U);
  EXPECT_EQ(make_inproc_bootstrap({2}).size(), 1U);
  EXPECT_EQ(make_inproc_bootstrap({0, 1}).back()->placement().cross_size, 2);
  EXPECT_THROW(make_inproc_bootstrap({}), UsageError);
  EXPECT_EQ(make_inproc_bootstrap(2).size(), 2U);
  EXPECT_THROW(make_inproc_bootstrap(0), UsageError);
}

TEST(Bootstrap, WhoLeavesIsNamed) {
  auto all = make_inproc_bootstrap(2);
  all[1].reset();
  try {
    static_cast<void>(all[0]->allgather("x"));
    ADD_FAILURE() << "rank 1 is gone";
  } catch (const PeerLostError& error) {
    EXPECT_EQ(error.rank(), 1);
  }
}

}  // namespace
}  // namespace kolo::cluster
