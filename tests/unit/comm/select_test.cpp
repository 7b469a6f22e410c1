#include <gtest/gtest.h>

#include <cmath>

#include "comm/private_buffer.h"
#include "comm/select.h"
#include "kolo/error.h"
#include "kolo/spi/communicator.h"

namespace kolo::comm {
namespace {

AllreduceOptions of_bytes(std::size_t bytes, RegisteredBuffer* registered = nullptr) {
  AllreduceOptions options;
  options.count = bytes / sizeof(float);
  options.registered = registered;
  return options;
}

Chooser on_one_host(int size) { return Chooser({.size = size, .shared_memory = true}); }
Chooser on_hosts(int hosts) { return Chooser({.size = hosts, .hosts = hosts}); }

TEST(Select, OneHostFollowsMemoryAndSize) {
  PrivateBuffer buffer(64);
  const Chooser host = on_one_host(2);
  const Chooser big_host = on_one_host(8);
  EXPECT_EQ(host.way(of_bytes(1 << 20, &buffer)), Way::in_place);
  EXPECT_EQ(host.way(of_bytes(64, &buffer)), Way::lanes);
  EXPECT_EQ(host.way(of_bytes(32 << 10)), Way::lanes);
  EXPECT_EQ(host.way(of_bytes(64 << 10)), Way::lanes);
  EXPECT_EQ(host.way(of_bytes(1 << 20)), Way::lanes);
  EXPECT_EQ(host.way(of_bytes(16 << 20)), Way::lanes);
  EXPECT_EQ(host.select(of_bytes(16 << 20)).choice.algorithm, Algorithm::direct);
  EXPECT_EQ(host.way(of_bytes(64 << 10, &buffer)), Way::in_place);
  EXPECT_EQ(big_host.way(of_bytes(1 << 20)), Way::sliced_lanes);
  EXPECT_EQ(big_host.way(of_bytes(64)), Way::lanes);
  EXPECT_EQ(on_one_host(1).way(of_bytes(64)), Way::alone);
}

// Whoever looks it up in the table gets what the model says is cheapest, at sizes on and off the table's grid.
TEST(Select, NetworksFollowTheModel) {
  constexpr Way kWays[] = {Way::ring, Way::tree, Way::halving_doubling, Way::recursive_doubling};
  std::vector<std::uint64_t> word(1);
  for (const int hosts : {2, 3, 4, 7, 8, 16, 100, 1000}) {
    for (const bool flags : {false, true}) {
      const Chooser chooser = on_hosts(hosts);
      for (double bytes = 4; bytes < 1e12; bytes *= 1.37) {
        AllreduceOptions options = of_bytes(static_cast<std::size_t>(bytes));
        if (flags) options.flags.words = word;
        const Load load{options.count * sizeof(float), flags};
        double best = INFINITY;
        for (const Way way : kWays) best = std::min(best, cost_us(way, load, chooser.surroundings(), fixed_costs()));
        const double chosen = cost_us(chooser.way(options), load, chooser.surroundings(), fixed_costs());
        EXPECT_LE(chosen, best * 1.02) << hosts << " hosts, " << load.bytes << " bytes";
      }
    }
  }
}

TEST(Select, CountsWhatTravels) {
  AllreduceOptions narrow;
  narrow.count = 1 << 16;
  narrow.dtype = DType::i8;
  narrow.op = ReduceOp::average;  // as 64-bit sums
  AllreduceOptions wide = of_bytes(8 << 16);
  const Chooser chooser = on_hosts(8);
  EXPECT_EQ(chooser.way(narrow), chooser.way(wide));
  EXPECT_EQ(chooser.select(narrow).choice.predicted_us, chooser.select(wide).choice.predicted_us);
}

TEST(Select, DoesWhatIsAsked) {
  AllreduceOptions options = of_bytes(1 << 20);
  const std::pair<Algorithm, Way> ways[] = {{Algorithm::ring, Way::ring},
                                            {Algorithm::tree, Way::tree},
                                            {Algorithm::halving_doubling, Way::halving_doubling},
                                            {Algorithm::recursive_doubling, Way::recursive_doubling}};
  for (const auto& [algorithm, way] : ways) {
    options.algorithm = algorithm;
    EXPECT_EQ(on_one_host(2).way(options), way);
    EXPECT_EQ(on_hosts(3).way(options), way);
    EXPECT_EQ(on_hosts(3).select(options).choice.algorithm, algorithm);
  }
}

TEST(Select, SaysWhatIsMissing) {
  const auto error_of = [](const Chooser& chooser, Algorithm algorithm) -> std::string {
    AllreduceOptions options = of_bytes(64);
    options.algorithm = algorithm;
    try {
      (void)chooser.way(options);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_NE(error_of(on_hosts(2), Algorithm::direct).find("needs all ranks on one host"), std::string::npos);
  EXPECT_NE(error_of(on_hosts(2), Algorithm::hierarchical).find("needs several hosts"), std::string::npos);
  EXPECT_NE(error_of(on_one_host(2), Algorithm::mpi).find("has no algorithm mpi"), std::string::npos);
  EXPECT_NE(error_of(on_one_host(1), Algorithm::mpi).find("has no algorithm mpi"), std::string::npos);
}

TEST(Select, SaysWhy) {
  CostConstants constants;
  constants.network = {.alpha_us = 100, .beta_us = 0.01};
  const Chooser chooser({.size = 4, .hosts = 4}, constants);
  const Choice choice = chooser.select(of_bytes(8)).choice;
  EXPECT_EQ(choice.algorithm, Algorithm::recursive_doubling);
  EXPECT_NEAR(choice.predicted_us, 2 * (100 + 0.08), 1e-9);
  EXPECT_EQ(choice.reason.find("recursive_doubling, 200 us expected; next: "), 0U) << choice.reason;
  EXPECT_NE(choice.reason.find("4 ranks on 4 hosts; costs: between hosts 100 us + 10 ns a byte"), std::string::npos)
      << choice.reason;
  EXPECT_EQ(chooser.select(of_bytes(30'000)).choice.reason.find("recursive_doubling with 1 halving, 750 us"), 0U)
      << chooser.select(of_bytes(30'000)).choice.reason;
  AllreduceOptions asked = of_bytes(8);
  asked.algorithm = Algorithm::ring;
  EXPECT_EQ(chooser.select(asked).choice.reason.find("ring (requested), 600 us expected; else: recursive_doubling"), 0U)
      << chooser.select(asked).choice.reason;
}

TEST(Select, BroadcastsDownAChainOrATree) {
  EXPECT_EQ(on_hosts(64).spread(64), Spread::tree);
  EXPECT_EQ(on_hosts(4).spread(64 << 20), Spread::chain);
  EXPECT_EQ(on_hosts(2).spread(64), Spread::chain);
}

}  // namespace
}  // namespace kolo::comm
