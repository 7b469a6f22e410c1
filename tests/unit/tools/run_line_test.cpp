#include "run_line.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <stdexcept>

#include "run_cores.h"

namespace kolo::tools {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::IsSupersetOf;

Surroundings eight_cores() {
  Surroundings around;
  around.cores = 8;
  around.program = "/opt/kolo";
  around.scratch = "/tmp/scratch";
  return around;
}

RunOptions of(int ranks) {
  RunOptions options;
  options.ranks = ranks;
  options.command = {"./train", "--epochs", "3"};
  return options;
}

bool has(const std::vector<std::string>& line, const std::vector<std::string>& words) {
  return std::search(line.begin(), line.end(), words.begin(), words.end()) != line.end();
}

TEST(RunLine, EndsWithTheSupervisorAndTheProgram) {
  const auto line = mpirun_line(of(2), eight_cores());
  EXPECT_EQ(line.front(), "mpirun");
  EXPECT_TRUE(has(line, {"-np", "2"}));
  const std::vector<std::string> end{"/opt/kolo", "rank-shim", "--", "./train", "--epochs", "3"};
  EXPECT_TRUE(std::equal(end.rbegin(), end.rend(), line.rbegin()));
  // mpirun must not end a job that we decide about.
  EXPECT_THAT(line, testing::Contains("--enable-recovery"));
  EXPECT_THAT(line, testing::Not(testing::Contains("--allow-run-as-root")));
}

// For mpirun a word ":" ends the words of a program.
TEST(RunLine, WordsOfTheProgramThatAreColonsAreEscaped) {
  RunOptions options = of(1);
  options.command = {":", "\\:", "a:", "::", "\\", "", ":-s"};
  const auto line = mpirun_line(options, eight_cores());
  const std::vector<std::string> end{"rank-shim", "--", "\\:", "\\\\:", "a:", "::", "\\", "", ":-s"};
  EXPECT_TRUE(std::equal(end.rbegin(), end.rend(), line.rbegin()));
  for (const std::string& word : options.command) EXPECT_EQ(unescape_colon(escape_colon(word)), word);
}

TEST(RunLine, OptionWithColonAsValueIsRefused) {
  RunOptions options = of(1);
  options.mca = {{"btl", ":"}};
  EXPECT_THROW(static_cast<void>(mpirun_line(options, eight_cores())), std::invalid_argument);
}

TEST(RunLine, RanksHaveTheWidthOfTheTerminalBesideThePrefix) {
  auto around = eight_cores();
  EXPECT_THAT(mpirun_line(of(2), around), testing::Contains("KOLO_RUN_COLUMNS=0"));
  EXPECT_THAT(mpirun_line(of(2), around), testing::Not(testing::Contains("TERM")));
  around.columns = 80;
  around.environment["TERM"] = "xterm";
  EXPECT_THAT(mpirun_line(of(2), around), testing::IsSupersetOf({"KOLO_RUN_COLUMNS=76", "TERM"}));
  EXPECT_EQ(columns_of_a_rank(of(11), around), 75);  // "[10] "
  RunOptions bare = of(11);
  bare.no_prefix = true;
  EXPECT_EQ(columns_of_a_rank(bare, around), 80);
  RunOptions wide = of(2);
  wide.environment = {"COLUMNS=200"};
  EXPECT_EQ(columns_of_a_rank(wide, around), 200);
}

TEST(RunLine, RootIsAllowedOnlyForRoot) {
  auto around = eight_cores();
  around.root = true;
  EXPECT_THAT(mpirun_line(of(2), around), testing::Contains("--allow-run-as-root"));
}

TEST(RunLine, TheSecretIsNotOnTheLine) {
  auto around = eight_cores();
  around.environment["KOLO_RUN_TOKEN"] = "secret";
  for (const auto& word : mpirun_line(of(2), around)) EXPECT_EQ(word.find("secret"), std::string::npos);
}

TEST(RunLine, MoreRanksThanRoomIsOversubscribed) {
  EXPECT_THAT(mpirun_line(of(9), eight_cores()), testing::Contains("--oversubscribe"));
  EXPECT_THAT(mpirun_line(of(8), eight_cores()), testing::Not(testing::Contains("--oversubscribe")));
  auto options = of(5);
  options.hosts = "a:2,b:2";
  EXPECT_THAT(mpirun_line(options, eight_cores()), testing::Contains("--oversubscribe"));
  options.ranks = 4;
  EXPECT_THAT(mpirun_line(options, eight_cores()), testing::Not(testing::Contains("--oversubscribe")));
}

TEST(RunBinding, EachRankItsShare) {
  EXPECT_TRUE(has(mpirun_line(of(2), eight_cores()), {"--map-by", "slot:PE=4", "--bind-to", "core"}));
  EXPECT_EQ(choose_binding(of(3), eight_cores()).cores_per_rank, 2);
}

TEST(RunBinding, NothingIsBoundWhereThreadsWouldShareACore) {
  EXPECT_EQ(choose_binding(of(9), eight_cores()).cores_per_rank, 0);
  auto around = eight_cores();
  around.environment["OMP_NUM_THREADS"] = "4";
  EXPECT_EQ(choose_binding(of(2), around).cores_per_rank, 4);
  EXPECT_EQ(choose_binding(of(3), around).cores_per_rank, 0);
  auto options = of(3);
  options.environment = {"OMP_NUM_THREADS=2"};  // for the ranks, whatever we have
  EXPECT_EQ(choose_binding(options, around).cores_per_rank, 2);
}

TEST(RunBinding, NothingIsBoundOnOtherOrEmulatedHosts) {
  auto options = of(2);
  options.hosts = "a:1,b:1";
  EXPECT_EQ(choose_binding(options, eight_cores()).cores_per_rank, 0);
  auto around = eight_cores();
  around.emulated = true;
  EXPECT_EQ(choose_binding(of(2), around).cores_per_rank, 0);
  EXPECT_TRUE(has(mpirun_line(options, around), {"--bind-to", "none"}));
}

TEST(RunBinding, SupervisorBindsWithinAnAffinityMask) {
  auto around = eight_cores();
  around.all_cpus = false;
  const auto line = mpirun_line(of(2), around);
  EXPECT_TRUE(has(line, {"--map-by", "slot", "--bind-to", "none", "-x", "KOLO_RUN_CORES_PER_RANK=4"}));
  auto options = of(9);
  EXPECT_EQ(choose_binding(options, around).cores_per_rank, 0);
  options.bind = "core";
  EXPECT_TRUE(has(mpirun_line(options, around), {"--bind-to", "none", "-x", "KOLO_RUN_CORES_PER_RANK=1"}));
  options.bind = "none";
  EXPECT_THAT(mpirun_line(options, around), testing::Not(testing::Contains("KOLO_RUN_CORES_PER_RANK=1")));
}

TEST(RunBinding, CpusOfARankFollowTheMask) {
  const std::vector<std::vector<int>> cores{{1, 9}, {3, 11}, {6}};  // masks with holes
  EXPECT_THAT(cpus_of_rank(cores, 1, 0), ElementsAre(1, 9));
  EXPECT_THAT(cpus_of_rank(cores, 1, 2), ElementsAre(6));
  EXPECT_THAT(cpus_of_rank(cores, 1, 3), ElementsAre(1, 9));
  EXPECT_THAT(cpus_of_rank(cores, 2, 0), ElementsAre(1, 3, 9, 11));
  EXPECT_THAT(cpus_of_rank({}, 1, 0), testing::IsEmpty());
}

TEST(RunBinding, OmpNumThreadsMayBeAListAndIsIgnoredIfInvalid) {
  auto around = eight_cores();
  for (const char* text : {"4,2", " 4"}) {
    around.environment["OMP_NUM_THREADS"] = text;
    EXPECT_EQ(choose_binding(of(3), around).cores_per_rank, 0) << text;
  }
  for (const char* text : {"0", "abc", "4x", "-4"}) {
    around.environment["OMP_NUM_THREADS"] = text;
    EXPECT_EQ(choose_binding(of(3), around).cores_per_rank, 2) << text;
  }
}

TEST(RunBinding, AsAskedFor) {
  auto options = of(2);
  options.bind = "none";
  EXPECT_EQ(choose_binding(options, eight_cores()).cores_per_rank, 0);
  options.bind = "core";
  options.ranks = 16;
  EXPECT_EQ(choose_binding(options, eight_cores()).cores_per_rank, 1);
}

TEST(RankVariables, NamedInsideARankOfMpirun) {
  auto around = eight_cores();
  around.environment = {{"OMPI_COMM_WORLD_RANK", "0"},
                        {"OMPI_UNIVERSE_SIZE", "2"},
                        {"OMPI_MCA_ess_base_vpid", "0"},
                        {"OMPI_MCA_btl", "tcp"},
                        {"PMIX_RANK", "0"},
                        {"PMIX_MCA_gds", "hash"},
                        {"HOME", "/h"},
                        {"OMPI_ALLOW_RUN_AS_ROOT", ""}};
  EXPECT_THAT(rank_variables(around),
              ElementsAre("OMPI_COMM_WORLD_RANK", "OMPI_MCA_ess_base_vpid", "OMPI_UNIVERSE_SIZE", "PMIX_RANK"));
}

TEST(RankVariables, EmptyOutsideOfARankAndInSlurmWithoutMpirun) {
  auto around = eight_cores();
  for (const char* name : {"SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_PROCID", "OMPI_MCA_btl", "PMIX_MCA_gds"}) {
    around.environment[name] = "1";
  }
  EXPECT_THAT(rank_variables(around), testing::IsEmpty());
  around.environment["PMIX_RANK"] = "0";
  EXPECT_THAT(rank_variables(around), testing::IsEmpty());
  around.environment.erase("SLURM_JOB_ID");
  EXPECT_THAT(rank_variables(around), ElementsAre("PMIX_RANK"));
}

TEST(RunLine, ForwardsWhatItMust) {
  auto around = eight_cores();
  around.environment = {{"KOLO_TIMEOUT", "5s"}, {"OMP_NUM_THREADS", "1"}, {"HOME", "/h"}, {"WANDB_KEY", "x"}};
  around.environment["KOLO_RUN_JOB"] = "the job that this one is a part of";
  auto options = of(2);
  options.environment = {"WANDB_KEY", "MODE=fast"};
  EXPECT_THAT(forwarded_names(options, around), ElementsAre("KOLO_TIMEOUT", "MODE", "OMP_NUM_THREADS", "WANDB_KEY"));
  const auto line = mpirun_line(options, around);
  EXPECT_TRUE(has(line, {"-x", "MODE"}));
  EXPECT_THAT(line, testing::Not(testing::Contains("HOME")));
}

TEST(RunLine, TheInterfaceIsForBothOfOpenMpisNetworks) {
  auto options = of(2);
  options.interface = "10.0.0.0/24";
  const auto line = mpirun_line(options, eight_cores());
  EXPECT_TRUE(has(line, {"--mca", "btl_tcp_if_include", "10.0.0.0/24"}));
  EXPECT_TRUE(has(line, {"--mca", "oob_tcp_if_include", "10.0.0.0/24"}));
}

TEST(RunLine, TheInterfaceIsForTheMonitorToo) {
  auto around = eight_cores();
  RunOptions options = of(2);
  options.interface = "eth1";
  EXPECT_THAT(completed(options, around).environment, ElementsAre("KOLO_INTERFACE=eth1"));
  around.environment["KOLO_INTERFACE"] = "eth2";  // somebody knows better
  EXPECT_THAT(completed(options, around).environment, testing::IsEmpty());
  EXPECT_THAT(completed(of(2), eight_cores()).environment, testing::IsEmpty());
}

TEST(RunLine, EmulatedHostsAreFoundByThemselves) {
  auto around = eight_cores();
  around.emulated = true;
  around.hub_network = "10.77.0.0/24";
  around.emulated_hosts = {"h0", "h1", "h2"};
  around.emulated_agent = "/x/cluster agent";
  const RunOptions options = completed(of(4), around);
  EXPECT_EQ(options.hosts, "h0:2,h1:1,h2:1");
  const auto line = mpirun_line(options, around);
  EXPECT_TRUE(has(line, {"--mca", "plm_rsh_agent", "/x/cluster agent"}));
  EXPECT_TRUE(has(line, {"--mca", "btl_tcp_if_include", "10.77.0.0/24"}));
  EXPECT_EQ(completed(of(2), around).hosts, "h0:1,h1:1");
}

TEST(RunOptions, RanksComeFromTheHosts) {
  RunOptions options = of(0);
  options.hosts = "a:3,b";
  EXPECT_EQ(completed(options, eight_cores()).ranks, 4);
  EXPECT_THROW(static_cast<void>(completed(of(0), eight_cores())), std::invalid_argument);
  options.hostfile = "hosts";
  EXPECT_THROW(static_cast<void>(completed(options, eight_cores())), std::invalid_argument);
}

TEST(RunOptions, HostsThatAreNone) {
  for (const char* text : {"", "a,", ",a", "a:0", "a:x", ":2", "a:2x", "a:-1"}) {
    EXPECT_THROW(static_cast<void>(parse_hosts(text)), std::invalid_argument) << text;
  }
}

TEST(RunOptions, Durations) {
  EXPECT_EQ(parse_duration("90"), 90s);
  EXPECT_EQ(parse_duration("1.5s"), 1500ms);
  EXPECT_EQ(parse_duration("20ms"), 20ms);
  EXPECT_EQ(parse_duration("10m"), 10min);
  EXPECT_EQ(parse_duration("10min"), 10min);
  EXPECT_EQ(parse_duration("2h"), 2h);
  for (const char* text : {"", "x", "0", "-1", "1d", "1e300h", "nan", "inf"}) {
    EXPECT_THROW(static_cast<void>(parse_duration(text)), std::invalid_argument) << text;
  }
}

TEST(RunLine, WordsForAShell) {
  EXPECT_EQ(shell_words({"a", "b c", "it's", "", "$x"}), R"(a 'b c' 'it'\''s' '' '$x')");
}

}  // namespace
}  // namespace kolo::tools
