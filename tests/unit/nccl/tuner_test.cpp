#include "nccl/tuner.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "kolo/error.h"

namespace kolo::nccl {
namespace {

using namespace std::chrono_literals;

constexpr int kAlgorithms = 7;
constexpr int kProtocols = 3;

std::vector<float> table_of(float tree, float ring) {
  std::vector<float> table(kAlgorithms * kProtocols, -1);
  for (int p = 0; p < kProtocols; ++p) {
    table[static_cast<std::size_t>(CostTable::kTree * kProtocols + p)] = tree < 0 ? tree : tree + static_cast<float>(p);
    table[static_cast<std::size_t>(CostTable::kRing * kProtocols + p)] = ring < 0 ? ring : ring + static_cast<float>(p);
  }
  table[4 * kProtocols + 2] = 1;  // NVLS, cheapest
  return table;
}

// As NCCL asks.
std::vector<float> advised(std::vector<float> table, int function = kAllreduceFunction) {
  int channels = 7;
  EXPECT_EQ(ncclTunerPlugin_v5.collective_info(nullptr, function, 1000, 1, reinterpret_cast<float**>(table.data()),
                                               kAlgorithms, kProtocols, 0, &channels),
            0);
  EXPECT_EQ(channels, 7);
  return table;
}

int cheapest(const std::vector<float>& table) {
  int best = -1;
  for (std::size_t i = 0; i < table.size(); ++i) {
    if (table[i] >= 0 && (best < 0 || table[i] < table[static_cast<std::size_t>(best)])) best = static_cast<int>(i);
  }
  return best / kProtocols;
}

TEST(Tuner, MakesWhatIsWishedCheapest) {
  const auto table = table_of(20, 10);
  EXPECT_EQ(advised(table), table);
  {
    const AlgorithmWish wish(Algorithm::tree, base::Deadline(60s));
    const auto asked = advised(table);
    EXPECT_EQ(cheapest(asked), CostTable::kTree);
    for (std::size_t i = 0; i < table.size(); ++i) EXPECT_EQ(asked[i] < 0, table[i] < 0) << i;
    EXPECT_EQ(asked[0], 20);  // the protocols' order is NCCL's
    EXPECT_EQ(advised(table, 2), table) << "an allgather is no allreduce";
  }
  {
    const AlgorithmWish wish(Algorithm::ring, base::Deadline(60s));
    EXPECT_EQ(cheapest(advised(table)), CostTable::kRing);
  }
  EXPECT_EQ(advised(table), table);
}

TEST(Tuner, LeavesWhatCannotBe) {
  const auto table = table_of(20, -1);
  const AlgorithmWish wish(Algorithm::ring, base::Deadline(60s));
  EXPECT_EQ(advised(table), table);
  std::vector<float> small{1, 2, 3};  // NCCL knows of trees only
  prefer(Algorithm::ring, {small.data(), 1, 3});
  EXPECT_EQ(small, (std::vector<float>{1, 2, 3}));
}

TEST(Tuner, HoldsInOtherThreads) {
  const AlgorithmWish wish(Algorithm::tree, base::Deadline(60s));
  std::thread([] { EXPECT_EQ(cheapest(advised(table_of(20, 10))), CostTable::kTree); }).join();
}

TEST(Tuner, DifferentWishesWaitForEachOther) {
  auto first = std::make_unique<AlgorithmWish>(Algorithm::tree, base::Deadline(60s));
  const AlgorithmWish same(Algorithm::tree, base::Deadline(0s));
  EXPECT_THROW(AlgorithmWish(Algorithm::ring, base::Deadline(10ms)), TimeoutError);
  EXPECT_THROW(AlgorithmWish(Algorithm::automatic, base::Deadline(10ms)), TimeoutError);
  first.reset();
  EXPECT_THROW(AlgorithmWish(Algorithm::ring, base::Deadline(0s)), TimeoutError);  // one still holds
}

TEST(Tuner, IsFoundInTheProcessByItsName) {
  void* const process = dlopen(nullptr, RTLD_NOW);
  ASSERT_NE(process, nullptr);
  const auto* found = static_cast<const TunerV5*>(dlsym(process, "ncclTunerPlugin_v5"));
  ASSERT_EQ(found, &ncclTunerPlugin_v5);
  EXPECT_STREQ(found->name, "kolo");
  void* context = &found;
  EXPECT_EQ(found->init(&context, 1, 2, 1, nullptr, nullptr, nullptr), 0);
  EXPECT_EQ(found->finalize(context), 0);
  dlclose(process);
}

}  // namespace
}  // namespace kolo::nccl
