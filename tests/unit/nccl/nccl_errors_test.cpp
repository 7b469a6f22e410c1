// What goes wrong while ranks meet and while collectives run: a typed error on this and all later operations, one
// abort, and a new communicator afterwards. And removed waits, which must not stay unnoticed.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>

#include "kolo/error.h"
#include "kolo/spi/communicator.h"
#include "nccl/comm_handle.h"
#include "support/thread_ranks.h"
#include "unit/nccl/nccl_end.h"

namespace kolo::test {
namespace {

using namespace std::chrono_literals;
using nccl::Result;

template <class E>
std::string text_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const E& error) {
    return error.what();
  } catch (const std::exception& error) {
    return std::string("another error: ") + error.what();
  }
  return "no error";
}

void expect_a_group_that_works(NcclRanks& ranks, int rank) {
  NcclEnd end(ranks, ranks.parts(rank), 10);
  end.communicator->allreduce(end.options(), 60s);
  EXPECT_EQ(end.values()[3], 7.0F);
}

TEST(NcclErrors, LateRankIsATimeout) {
  NcclRanks ranks(2);
  nccl::CommParts parts;
  parts.library = ranks.library;
  parts.size = 2;
  parts.timeout = 50ms;
  const std::string text = text_of<TimeoutError>([&] { nccl::CommHandle handle(parts); });
  EXPECT_NE(text.find("creating a communicator of 2 ranks: not complete after 50 ms on rank 0"), std::string::npos)
      << text;
  EXPECT_EQ(ranks.nccl.aborted_communicators(), 1);
  run_ranks(2, [&](int rank) { expect_a_group_that_works(ranks, rank); });
}

TEST(NcclErrors, InitThatFails) {
  NcclRanks ranks(1);
  ranks.nccl.fail("init", Result::system_error);
  nccl::CommParts parts;
  parts.library = ranks.library;
  const std::string text = text_of<BackendError>([&] { nccl::CommHandle handle(parts); });
  EXPECT_NE(text.find("ncclCommInitRankConfig: unhandled system error"), std::string::npos) << text;
  EXPECT_EQ(ranks.nccl.live_communicators(), 0);
}

TEST(NcclErrors, AsynchronousErrorEndsTheGroup) {
  NcclRanks ranks(2);
  run_ranks(2, [&](int rank) {
    nccl::NcclParts parts = ranks.parts(rank);
    if (rank == 1) parts.timeout = 1500ms;  // its peer will be gone
    NcclEnd end(ranks, parts, 10);
    end.communicator->barrier(60s);
    if (rank == 1) {
      // The first may have been carried out before.
      EXPECT_THROW(
          {
            end.communicator->allreduce(end.options(), 60s);
            end.communicator->allreduce(end.options(), 60s);
          },
          TimeoutError);
      return;
    }
    const auto first = end.communicator->start(end.options());
    ranks.nccl.break_rank(0, Result::remote_error, "socket closed by a peer");
    const auto text = text_of<BackendError>([&] {
      while (!first->advance()) {
      }
    });
    EXPECT_NE(text.find("remote process exited (socket closed by a peer); on rank 0 of 2"), std::string::npos) << text;
    EXPECT_THROW((void)end.communicator->start(end.options()), BackendError);
    EXPECT_THROW((void)end.communicator->start_barrier(), BackendError);
    EXPECT_THROW((void)first->advance(), BackendError);
  });
  EXPECT_EQ(ranks.nccl.calls("abort"), ranks.nccl.aborted_communicators());
  run_ranks(2, [&](int rank) { expect_a_group_that_works(ranks, rank); });
}

TEST(NcclErrors, PeerThatNeverComes) {
  NcclRanks ranks(2);
  run_ranks(2, [&](int rank) {
    nccl::NcclParts parts = ranks.parts(rank);
    parts.timeout = 1500ms;
    parts.farewell = 100ms;
    NcclEnd end(ranks, parts, 10);
    if (rank == 1) return;
    const auto first = end.communicator->start(end.options());
    const auto second = end.communicator->start(end.options());
    const std::string text = text_of<TimeoutError>([&] { end.communicator->drive(*second, 60s, "allreduce"); });
    EXPECT_NE(text.find("allreduce of 10 f32: not complete after 1500 ms on rank 0 of 2"), std::string::npos) << text;
    EXPECT_THROW((void)first->advance(), TimeoutError);
    EXPECT_THROW((void)end.communicator->start(end.options()), TimeoutError);
  });
  run_ranks(2, [&](int rank) { expect_a_group_that_works(ranks, rank); });
}

// The deadline of the caller is earlier than the communicator's: nothing is aborted before the end.
TEST(NcclErrors, AbandonedOperationsEndWithTheCommunicator) {
  NcclRanks ranks(2);
  run_ranks(2, [&](int rank) {
    nccl::NcclParts parts = ranks.parts(rank);
    parts.farewell = 100ms;
    NcclEnd end(ranks, parts, 10);
    if (rank == 1) return;
    EXPECT_THROW(end.communicator->allreduce(end.options(), 20ms), TimeoutError);
    EXPECT_THROW(end.communicator->barrier(20ms), TimeoutError);
  });
  EXPECT_EQ(ranks.nccl.live_communicators(), 0);
}

TEST(NcclErrors, CallThatIsRefused) {
  NcclRanks ranks(1);
  nccl::NcclParts parts = ranks.parts(0);
  NcclEnd end(ranks, parts, 10);
  ranks.nccl.fail("all_reduce", Result::invalid_argument);
  const std::string text = text_of<BackendError>([&] { end.communicator->allreduce(end.options(), 60s); });
  EXPECT_NE(text.find("allreduce of 10 f32: invalid argument"), std::string::npos) << text;
  EXPECT_THROW(end.communicator->barrier(60s), BackendError);
  EXPECT_EQ(ranks.nccl.calls("abort"), 1);
}

TEST(NcclErrors, AbortEndsWhatIsInFlight) {
  NcclRanks ranks(2);
  run_ranks(2, [&](int rank) {
    NcclEnd end(ranks, ranks.parts(rank), 10);
    const auto waiting = rank == 0 ? end.communicator->start(end.options()) : nullptr;
    end.communicator->abort();
    end.communicator->abort();
    const auto text = text_of<BackendError>([&] { end.communicator->barrier(60s); });
    EXPECT_NE(text.find("aborted"), std::string::npos) << text;
    if (rank == 0) {
      EXPECT_THROW((void)waiting->advance(), BackendError);
    }
  });
  EXPECT_EQ(ranks.nccl.calls("abort"), 2);
  run_ranks(2, [&](int rank) { expect_a_group_that_works(ranks, rank); });
}

// Two communicators, used in different orders: a deadlock, which whoever asks first hears of at once.
TEST(NcclErrors, DifferentOrdersAreFound) {
  NcclRanks ranks(2);
  run_ranks(2, [&](int rank) {
    nccl::NcclParts parts = ranks.parts(rank);
    parts.timeout = 2s;  // for the one who finds its peer gone
    parts.farewell = 50ms;
    NcclEnd end(ranks, parts, 10);
    const auto other = nccl::make_nccl(parts);
    end.communicator->barrier(60s);
    Communicator& first = rank == 0 ? *end.communicator : *other;
    Communicator& second = rank == 0 ? *other : *end.communicator;
    const auto one = first.start(end.options());
    const auto two = second.start(end.options());
    EXPECT_THROW(
        {
          first.drive(*one, 60s, "one");
          second.drive(*two, 60s, "two");
        },
        Error);
  });
  const auto violations = ranks.device.take_violations();
  ASSERT_FALSE(violations.empty());
  EXPECT_EQ(violations[0].fault, Fault::deadlock) << violations[0].text;
}

// The code as it is, on tables from which one wait has been taken.
struct Removed {
  const char* name;
  void (*from)(cuda::RuntimeApi& runtime, nccl::NcclApi& nccl);
};
constexpr Removed kRemovals[] = {
    {"the order between streams",
     [](cuda::RuntimeApi& runtime, nccl::NcclApi&) {
       runtime.stream_wait_event = [](cuda::StreamHandle, cuda::EventHandle, unsigned) { return cuda::kSuccess; };
     }},
    {"the wait for the end of an operation",
     [](cuda::RuntimeApi& runtime, nccl::NcclApi&) {
       runtime.event_query = [](cuda::EventHandle) { return cuda::kSuccess; };
     }},
    {"the wait until a call is enqueued",
     [](cuda::RuntimeApi&, nccl::NcclApi& nccl) {
       nccl.async_error = [](nccl::Comm, Result* error) {
         *error = Result::success;
         return Result::success;
       };
     }},
};

// Whether anything was noticed.
bool noticed(const Removed& removed, std::uint64_t seed) {
  NcclRanks ranks(2, {.seed = seed});
  cuda::RuntimeApi runtime = ranks.device.api();
  nccl::NcclApi api = ranks.nccl.api();
  removed.from(runtime, api);
  ranks.runtime = std::make_shared<const cuda::Runtime>(runtime);
  ranks.library = std::make_shared<const nccl::Library>(api, "without a wait");
  std::atomic<bool> wrong{false};
  run_ranks(2, [&](int rank) {
    nccl::NcclParts parts = ranks.parts(rank);
    parts.timeout = 50ms;
    parts.farewell = 10ms;
    NcclEnd end(ranks, parts, 10);
    cuda::OwnStream other(ranks.runtime, rank);
    try {
      AllreduceOptions options = end.options();
      const auto first = end.communicator->start(options);
      options.stream = other.view();
      const auto second = end.communicator->start(options);
      end.communicator->drive(*second, 5s, "second");
      const std::vector<float> values = end.values();
      for (std::size_t i = 0; i < values.size(); ++i) wrong = wrong || values[i] != 2 * (2.0F * i + 1);
    } catch (const Error&) {
      wrong = true;
    }
  });
  return !ranks.device.take_violations().empty() || wrong;
}

TEST(NcclErrors, RemovedWaitsAreNoticed) {
  for (const Removed& removed : kRemovals) {
    int found = 0;
    for (std::uint64_t seed = 1; seed <= 20; ++seed) found += noticed(removed, seed) ? 1 : 0;
    EXPECT_GT(found, 0) << removed.name;
  }
  EXPECT_FALSE(noticed({"nothing", [](cuda::RuntimeApi&, nccl::NcclApi&) {}}, 1));
}

}  // namespace
}  // namespace kolo::test
