#include <gmock/gmock.h>

#include <filesystem>

#include "cluster/make.h"
#include "kolo/error.h"
#include "runtime/wires.h"
#include "support/thread_ranks.h"

namespace kolo::runtime {
namespace {

std::vector<Network> choose(const std::vector<Network>& settings) {
  auto bootstraps = cluster::make_inproc_bootstrap(static_cast<int>(settings.size()));
  std::vector<Network> chosen(settings.size());
  test::run_ranks(static_cast<int>(settings.size()), [&](int rank) {
    const auto at = static_cast<std::size_t>(rank);
    chosen[at] = choose_network(*bootstraps[at], settings[at]);
  });
  return chosen;
}

TEST(ChooseNetwork, RequestedNetworkIsUsed) {
  EXPECT_THAT(choose({Network::mpi, Network::mpi}), testing::Each(Network::mpi));
  EXPECT_THAT(choose({Network::tcp, Network::tcp, Network::tcp}), testing::Each(Network::tcp));
}

TEST(ChooseNetwork, AutomaticIsMpiIfInfiniBandExistsAndOtherwiseTcp) {
  const std::filesystem::path devices = "/sys/class/infiniband";
  const bool some = std::filesystem::exists(devices) && !std::filesystem::is_empty(devices);
  EXPECT_THAT(choose({Network::automatic, Network::automatic}), testing::Each(some ? Network::mpi : Network::tcp));
}

TEST(ChooseNetwork, DifferentRequestsAreUsageErrorOnEveryRank) {
  auto bootstraps = cluster::make_inproc_bootstrap(3);
  test::run_ranks(3, [&](int rank) {
    try {
      (void)choose_network(*bootstraps[static_cast<std::size_t>(rank)], rank == 2 ? Network::mpi : Network::automatic);
      ADD_FAILURE() << "they cannot agree";
    } catch (const UsageError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("auto on rank 0 and mpi on rank 2"));
    }
  });
}

}  // namespace
}  // namespace kolo::runtime
