#include "transport/slot_place.h"

#include <gmock/gmock.h>

#include <cstdint>
#include <random>
#include <set>
#include <vector>

#include "cluster/bootstrap.h"
#include "cluster/make.h"
#include "support/thread_ranks.h"
#include "transport/make.h"

namespace kolo::transport {
namespace {

using namespace std::chrono_literals;

constexpr std::uintptr_t kPage = 4096;

// As published for Zen: bits 12 to 19, each with a bit above.
std::uintptr_t way_hash(std::uintptr_t address) {
  constexpr int kPartners[] = {27, 26, 25, 20, 21, 22, 23, 24};
  std::uintptr_t hash = 0;
  for (int bit = 0; bit < 8; ++bit) hash |= (((address >> (12 + bit)) ^ (address >> kPartners[bit])) & 1U) << bit;
  return hash;
}

// Of 1000 pages anywhere in the slots: at how many do some of them look alike?
int alike(const std::vector<std::uintptr_t>& slots, std::size_t length) {
  std::minstd_rand random(1);
  int found = 0;
  for (int i = 0; i < 1000; ++i) {
    const std::uintptr_t offset = random() % (length / kPage) * kPage;
    std::set<std::uintptr_t> hashes;
    for (const auto slot : slots) hashes.insert(way_hash(slot + offset));
    found += hashes.size() < slots.size() ? 1 : 0;
  }
  return found;
}

TEST(SlotPlace, NextToEachOtherSlotsOfSomeLengthsWouldLookAlike) {
  constexpr std::uintptr_t kFirst = 0x7f1234567000;
  EXPECT_NEAR(alike({kFirst, kFirst - (128U << 20) - kPage}, 128U << 20), 500, 50);
  EXPECT_GT(alike({kFirst, kFirst - (8U << 20) - (256U << 10)}, 8U << 20), 200);
  EXPECT_EQ(alike({kFirst, kFirst - (256U << 20)}, 256U << 20), 1000);
}

TEST(SlotPlace, AtTheirPlacesTheyDoNot) {
  constexpr std::uintptr_t kFirst = 0x7f1234567000;
  for (const std::size_t mebibytes : {1, 25, 64, 128, 255, 256, 1024, 5000}) {
    const std::size_t length = (mebibytes << 20) + kPage;
    for (const int place : {0, 1, kSlotPlaces - 1}) {
      std::vector<std::uintptr_t> slots{kFirst};
      for (std::size_t i = 1; i < 8; ++i) {
        void* const wish = slot_place(reinterpret_cast<void*>(kFirst), i, length, place);
        slots.push_back(reinterpret_cast<std::uintptr_t>(wish));
        ASSERT_LE(slots[i] + length, slots[i - 1]) << "they overlap";
      }
      EXPECT_EQ(alike(slots, length), 0) << mebibytes << " MiB";
    }
  }
}

TEST(SlotPlace, WithoutAFirstOneOrBelowTheLowestAddressThereIsNone) {
  EXPECT_EQ(slot_place(nullptr, 1, kPage, 0), nullptr);
  EXPECT_EQ(slot_place(reinterpret_cast<void*>(0x7f1234567000), 0, kPage, 0), nullptr);
  EXPECT_EQ(slot_place(reinterpret_cast<void*>(std::uintptr_t{1} << 28), 1, kPage, 0), nullptr);
}

// Several allocations of each process: those that come later lie between the first ones'.
TEST(SlotPlace, IsWhereProcessesHaveTheirMemory) {
  constexpr int kRanks = 3;
  auto bootstraps = cluster::make_inproc_bootstrap(kRanks);
  test::run_ranks(kRanks, [&](int rank) {
    const auto memory = make_process_shared_memory(*bootstraps[static_cast<std::size_t>(rank)], 60s);
    std::vector<std::unique_ptr<SharedRegion>> regions;
    for (const std::size_t bytes : {(8U << 20) + (256U << 10), 1U << 20, 64U << 10, (8U << 20) + (256U << 10)}) {
      regions.push_back(memory->allocate(bytes, 60s));
      std::vector<std::uintptr_t> slots;
      for (const auto slot : regions.back()->slots()) slots.push_back(reinterpret_cast<std::uintptr_t>(slot.data()));
      EXPECT_EQ(alike(slots, bytes), 0) << bytes << " bytes on rank " << rank;
    }
  });
}

}  // namespace
}  // namespace kolo::transport
