// The ways in which a communicator ends that nobody wants: peers that die while it waits, an abort that does not
// return, an end while something is in flight, a device that refuses.
#include <gmock/gmock.h>

#include <atomic>
#include <semaphore>

#include "kolo/error.h"
#include "nccl/comm_handle.h"
#include "support/thread_ranks.h"
#include "unit/nccl/nccl_end.h"

namespace kolo::test {
namespace {

using namespace std::chrono_literals;
using nccl::Result;
using testing::HasSubstr;

nccl::CommParts parts_of_two(NcclRanks& ranks) {
  nccl::CommParts parts;
  parts.library = ranks.library;
  parts.size = 2;
  parts.timeout = 20s;
  return parts;
}

TEST(CommHandle, APeersDeathEndsTheWaitForTheOthers) {
  NcclRanks ranks(2);
  auto parts = parts_of_two(ranks);
  std::atomic<int> looks = 0;
  parts.check_peers = [&] {
    if (++looks == 3) throw PeerLostError(1, "rank 1 was killed");
  };
  EXPECT_THROW(nccl::CommHandle handle(parts), PeerLostError);
  EXPECT_EQ(ranks.nccl.aborted_communicators(), 1);
}

// NCCL connects when it is first used, and waits for the peer then; the caller may hold locks meanwhile.
TEST(CommHandle, APeersDeathEndsTheWaitForACall) {
  NcclRanks ranks(2);
  static std::atomic<bool> stuck;
  stuck = false;
  static nccl::NcclApi real;
  real = ranks.nccl.api();
  nccl::NcclApi api = real;
  api.async_error = [](nccl::Comm comm, Result* error) {
    const Result result = real.async_error(comm, error);
    if (stuck) *error = Result::in_progress;
    return result;
  };
  ranks.library = std::make_shared<const nccl::Library>(api, "stuck");
  run_ranks(2, [&](int rank) {
    nccl::NcclParts parts = ranks.parts(rank);
    parts.farewell = 50ms;
    parts.check_peers = [rank] {
      if (rank == 0 && stuck) throw PeerLostError(1, "rank 1 was killed");
    };
    NcclEnd end(ranks, parts, 10);
    end.communicator->barrier(60s);
    (void)ranks.bootstraps[static_cast<std::size_t>(rank)]->allgather("ready");
    if (rank == 0) {
      stuck = true;
      EXPECT_THROW((void)end.communicator->start(end.options()), PeerLostError);
      EXPECT_THROW((void)end.communicator->start_barrier(), PeerLostError);
      stuck = false;
    }
    (void)ranks.bootstraps[static_cast<std::size_t>(rank)]->allgather("over");
  });
}

TEST(CommHandle, APeersDeathEndsWhatIsInFlight) {
  NcclRanks ranks(2);
  std::atomic<bool> dead = false;
  run_ranks(2, [&](int rank) {
    nccl::NcclParts parts = ranks.parts(rank);
    parts.farewell = 50ms;
    parts.check_peers = [&dead, rank] {
      if (dead && rank == 0) throw PeerLostError(1, "rank 1 was killed");
    };
    NcclEnd end(ranks, parts, 10);
    if (rank == 1) return;
    const auto waiting = end.communicator->start(end.options());
    EXPECT_FALSE(waiting->advance());
    dead = true;
    EXPECT_THROW(end.communicator->drive(*waiting, 60s, "allreduce"), PeerLostError);
  });
}

// It goes on in a thread of its own; nobody waits for it longer than the limit.
TEST(CommHandle, AnAbortThatDoesNotReturnKeepsNobody) {
  NcclRanks ranks(2);
  static std::counting_semaphore<2> may_return(0);
  static std::counting_semaphore<2> returned(0);
  static nccl::NcclApi real;
  real = ranks.nccl.api();
  nccl::NcclApi api = real;
  api.abort_comm = [](nccl::Comm comm) {
    may_return.acquire();
    const Result result = real.abort_comm(comm);
    returned.release();
    return result;
  };
  ranks.library = std::make_shared<const nccl::Library>(api, "an abort without end");
  auto parts = parts_of_two(ranks);
  parts.timeout = 20ms;
  parts.abort_limit = 20ms;
  EXPECT_THROW(nccl::CommHandle handle(parts), TimeoutError);
  EXPECT_EQ(ranks.nccl.aborted_communicators(), 0);
  may_return.release();
  returned.acquire();
  EXPECT_EQ(ranks.nccl.aborted_communicators(), 1);
}

// The device passes what was aborted: that must not look like success.
TEST(CommHandle, WhatIsInFlightAtTheEndHasFailed) {
  NcclRanks ranks(2);
  run_ranks(2, [&](int rank) {
    nccl::NcclParts parts = ranks.parts(rank);
    parts.farewell = 50ms;
    NcclEnd end(ranks, parts, 10);
    if (rank == 1) return;
    const auto waiting = end.communicator->start(end.options());
    end.communicator.reset();
    (void)ranks.device.api().stream_synchronize(end.stream.view().handle);
    try {
      EXPECT_FALSE(waiting->advance());
    } catch (const BackendError& error) {
      EXPECT_THAT(error.what(), HasSubstr("destroyed while operations were in flight"));
    }
    EXPECT_THROW((void)waiting->advance(), BackendError);
    EXPECT_EQ(end.values()[3], 3.0F) << "the sum was never made";
  });
}

// Peers have the collective in their streams, this rank does not: the group is over, and not out of step.
TEST(CommHandle, ADeviceThatRefusesEndsTheGroup) {
  for (const char* call : {"event_record", "stream_wait_event"}) {
    NcclRanks ranks(1);
    nccl::NcclParts parts = ranks.parts(0);
    NcclEnd end(ranks, parts, 10);
    end.communicator->barrier(60s);  // in another stream
    ranks.device.fail(call, 719);
    EXPECT_THROW((void)end.communicator->start(end.options()), BackendError) << call;
    EXPECT_THROW((void)end.communicator->start(end.options()), BackendError) << call;
    EXPECT_EQ(ranks.nccl.aborted_communicators(), 1) << call;
  }
}

// Used by turns, as the plan's order has it; one that was aborted leaves the other as it was.
TEST(CommHandle, TwoCommunicatorsOfWhichOneIsAborted) {
  NcclRanks ranks(2);
  run_ranks(2, [&](int rank) {
    NcclEnd end(ranks, ranks.parts(rank), 10);
    auto other = nccl::make_nccl(ranks.parts(rank));
    end.communicator->allreduce(end.options(), 60s);
    other->barrier(60s);
    other->abort();
    end.communicator->barrier(60s);
    EXPECT_THROW((void)other->start_barrier(), BackendError);
    other = nccl::make_nccl(ranks.parts(rank));
    other->barrier(60s);
    end.communicator->barrier(60s);
    EXPECT_EQ(end.values()[3], 7.0F);
  });
  EXPECT_EQ(ranks.nccl.live_communicators(), 0);
}

}  // namespace
}  // namespace kolo::test
