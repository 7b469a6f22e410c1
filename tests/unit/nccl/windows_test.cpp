// Memory in windows: which ranks agree on it, what NCCL demands of it, and how it ends.
#include <gtest/gtest.h>

#include <functional>

#include "kolo/error.h"
#include "nccl/registration_choice.h"
#include "support/thread_ranks.h"
#include "unit/nccl/nccl_end.h"

namespace kolo::test {
namespace {

using namespace std::chrono_literals;
using nccl::Result;

constexpr std::size_t kCount = 100;

struct Calls {
  int windows = 0;
  int windows_ended = 0;
  int buffers = 0;
  int buffers_ended = 0;
  bool operator==(const Calls&) const = default;
};

Calls calls_of(const SimulatedNccl& nccl) {
  return {nccl.calls("register_window"), nccl.calls("deregister_window"), nccl.calls("register_buffer"),
          nccl.calls("deregister_buffer")};
}

nccl::NcclParts with_windows(NcclRanks& ranks, int rank) {
  nccl::NcclParts parts = ranks.parts(rank);
  parts.registration = NcclRegistration::window;
  return parts;
}

// One sum of floats in memory that was allocated, by `parts` of each rank.
void sum_once(NcclRanks& ranks, int rank, const nccl::NcclParts& parts) {
  NcclEnd end(ranks, parts, kCount);
  const std::size_t sizes[] = {kCount * sizeof(float), 0, 4096};
  const auto buffers = end.communicator->allocate(sizes, 60s);
  const std::vector<float> values(kCount, static_cast<float>(rank + 1));
  ranks.device.write(buffers[0]->data().data(), values.data(), kCount * sizeof(float));
  AllreduceOptions options = end.options();
  options.data = buffers[0]->data().data();
  options.registered = buffers[0].get();
  end.communicator->allreduce(options, 60s);
  std::vector<float> found(kCount);
  ranks.device.peek(found.data(), options.data, kCount * sizeof(float));
  EXPECT_EQ(found, std::vector<float>(kCount, 3));
}

Calls calls_after_a_sum(NcclRegistration asked, const NcclOptions& options = {},
                        const std::function<void(nccl::NcclParts&)>& change = {}) {
  NcclRanks ranks(2, options);
  run_ranks(2, [&](int rank) {
    nccl::NcclParts parts = ranks.parts(rank);
    parts.registration = asked;
    if (change) change(parts);
    sum_once(ranks, rank, parts);
  });
  return calls_of(ranks.nccl);
}

TEST(Windows, AreMadeByAllRanksAndEndedByEach) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    EXPECT_EQ(calls_after_a_sum(NcclRegistration::window, {.seed = seed}), (Calls{6, 6, 0, 0}));
  }
  EXPECT_EQ(calls_after_a_sum(NcclRegistration::buffer), (Calls{0, 0, 6, 6}));
  EXPECT_EQ(calls_after_a_sum(NcclRegistration::off), (Calls{}));
}

TEST(Windows, AreNotTakenUnasked) {
  constexpr Calls kBuffers{0, 0, 6, 6};
  EXPECT_EQ(calls_after_a_sum(NcclRegistration::automatic), kBuffers);
  EXPECT_EQ(calls_after_a_sum(NcclRegistration::automatic, {.version = 22600}), kBuffers) << "has none";
}

// NCCL makes none, and does not call that an error; after the first time it is not asked again.
TEST(Windows, AreBuffersWhereDevicesHaveNoSymmetricMemory) {
  NcclRanks ranks(2, {.symmetric = false});
  run_ranks(2, [&](int rank) {
    NcclEnd end(ranks, with_windows(ranks, rank), 4);
    const std::size_t sizes[] = {256};
    const auto first = end.communicator->allocate(sizes, 60s);
    const auto second = end.communicator->allocate(sizes, 60s);
  });
  EXPECT_EQ(calls_of(ranks.nccl), (Calls{2, 0, 4, 4}));
}

TEST(Windows, ARankWithoutThemMeansNoneForAll) {
  NcclRanks ranks(2);
  nccl::NcclApi older = ranks.nccl.api();
  older.revoke = nullptr;
  const auto library = std::make_shared<const nccl::Library>(older, "older");
  run_ranks(2, [&](int rank) {
    nccl::NcclParts parts = ranks.parts(rank);
    if (rank == 1) parts.library = library;
    sum_once(ranks, rank, parts);
    parts.registration = NcclRegistration::window;
    EXPECT_THROW((void)nccl::make_nccl(parts), UsageError);
  });
  EXPECT_EQ(calls_of(ranks.nccl), (Calls{0, 0, 6, 6}));
}

TEST(Windows, AreNeitherRingNorTree) {
  NcclRanks ranks(2, {.tuner = &ncclTunerPlugin_v5});
  run_ranks(2, [&](int rank) {
    nccl::NcclParts parts = with_windows(ranks, rank);
    NcclEnd end(ranks, parts, 4);
    const std::size_t sizes[] = {16};
    const auto buffers = end.communicator->allocate(sizes, 60s);
    AllreduceOptions options = end.options();
    options.data = buffers[0]->data().data();
    options.registered = buffers[0].get();
    end.communicator->allreduce(options, 60s);
    options.algorithm = Algorithm::ring;
    EXPECT_THROW((void)end.communicator->start(options), UsageError);
    options.data = end.memory.data();
    options.registered = nullptr;
    end.communicator->allreduce(options, 60s);
    parts.algorithm = Algorithm::tree;
    EXPECT_THROW((void)nccl::make_nccl(parts), UsageError);
  });
  EXPECT_EQ(ranks.nccl.launched(kSymmetricAlgorithm), 2);
  EXPECT_EQ(ranks.nccl.launched(nccl::CostTable::kRing), 2);
}

TEST(Windows, OfDifferentSizesAreAMismatchOnAllRanks) {
  NcclRanks ranks(3);
  run_ranks(3, [&](int rank) {
    NcclEnd end(ranks, with_windows(ranks, rank), 4);
    const std::size_t sizes[] = {rank == 1 ? std::size_t{512} : std::size_t{256}};
    EXPECT_THROW((void)end.communicator->allocate(sizes, 60s), MismatchError);
    end.communicator->barrier(60s);
  });
  EXPECT_EQ(ranks.nccl.calls("register_window"), 0);
}

// What one rank's NCCL refuses leaves the others waiting for it in theirs: until their deadline, and with a hint.
TEST(Windows, AnErrorEndsTheGroup) {
  NcclRanks ranks(2);
  ranks.nccl.fail("register_window", Result::system_error);
  run_ranks(2, [&](int rank) {
    nccl::NcclParts parts = with_windows(ranks, rank);
    parts.timeout = 1500ms;
    NcclEnd end(ranks, parts, 4);
    const std::size_t sizes[] = {256};
    try {
      (void)end.communicator->allocate(sizes, 60s);
      ADD_FAILURE() << "rank " << rank << " has windows";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("KOLO_NCCL_REGISTRATION=buffer"), std::string::npos) << error.what();
    }
  });
  EXPECT_EQ(ranks.nccl.aborted_communicators(), 2);
}

// Nobody has waited for the sum when the communicator goes: it is carried out, and then the window ends.
TEST(Windows, EndBehindWhatUsesThem) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    NcclRanks ranks(2, {.seed = seed});
    run_ranks(2, [&](int rank) {
      NcclEnd end(ranks, with_windows(ranks, rank), 4);
      const std::size_t sizes[] = {256};
      const auto buffers = end.communicator->allocate(sizes, 60s);
      AllreduceOptions options = end.options();
      options.data = buffers[0]->data().data();
      options.registered = buffers[0].get();
      const auto sum = end.communicator->start(options);
      end.communicator.reset();
      EXPECT_TRUE(sum->advance());
    });
    EXPECT_EQ(calls_of(ranks.nccl), (Calls{2, 2, 0, 0}));
    EXPECT_EQ(ranks.nccl.aborted_communicators(), 0);
    if (HasFailure()) FAIL() << "seed " << seed;
  }
}

// A peer never comes: the operation that uses the window is stopped first, then the window goes, then the communicator.
TEST(Windows, EndInOrderWhenTheGroupIsAborted) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    NcclRanks ranks(2, {.seed = seed});
    run_ranks(2, [&](int rank) {
      nccl::NcclParts parts = with_windows(ranks, rank);
      parts.farewell = 1s;
      NcclEnd end(ranks, parts, 4);
      const std::size_t sizes[] = {256};
      const auto buffers = end.communicator->allocate(sizes, 60s);
      AllreduceOptions options = end.options();
      options.data = buffers[0]->data().data();
      options.registered = buffers[0].get();
      const auto waiting = rank == 0 ? end.communicator->start(options) : nullptr;
      end.communicator->give_up();
      (void)ranks.device.api().stream_synchronize(end.stream.view().handle);
    });
    EXPECT_EQ(calls_of(ranks.nccl), (Calls{2, 2, 0, 0}));
    EXPECT_EQ(ranks.nccl.calls("revoke"), 2);
    EXPECT_EQ(ranks.nccl.aborted_communicators(), 2);
  }
}

}  // namespace
}  // namespace kolo::test
