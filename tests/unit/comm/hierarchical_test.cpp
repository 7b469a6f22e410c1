// What the contract does not reach: many pieces at once, vetoes above several of them, composition, deaths.
#include <gmock/gmock.h>

#include <cstring>

#include "comm/make.h"
#include "contract/contract_data.h"
#include "kolo/error.h"
#include "kolo/spi/communicator.h"
#include "support/faulty_transport.h"
#include "support/pretended_hosts.h"
#include "support/sanitizers.h"
#include "support/thread_ranks.h"
#include "telemetry/counters.h"

namespace kolo::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

constexpr std::chrono::milliseconds kLimit{60000};

struct World {
  explicit World(HostLayout where)
      : layout(std::move(where)),
        transports(transport::make_inproc(static_cast<int>(layout.size()))),
        memories(make_memories(layout)),
        counters(layout.size()) {}

  // The transport of rank `leaver` ends when its body has.
  template <class Body>
  void run(Body body, Rank leaver = -1) {
    run_ranks(static_cast<int>(layout.size()), [&](int rank) {
      const auto r = static_cast<std::size_t>(rank);
      comm::HierarchicalParts parts;
      parts.whole.transport = transports[r].get();
      parts.whole.shared_memory = memories[r].get();
      parts.whole.counters = &counters[r];
      parts.hosts = hosts_of(layout);
      parts.may_be_flat = false;
      auto communicator = comm::make_hierarchical(parts);
      body(*communicator);
      communicator.reset();
      if (rank == leaver) transports[r].reset();
    });
  }

  HostLayout layout;
  std::vector<std::unique_ptr<transport::Transport>> transports;
  std::vector<std::unique_ptr<transport::SharedMemory>> memories;
  std::vector<telemetry::Counters> counters;
};

struct Registered {
  std::unique_ptr<RegisteredBuffer> buffer;
  std::vector<std::byte> mine;
  AllreduceOptions options;

  Registered(Communicator& comm, DType dtype, std::size_t count) : mine(contribution(dtype, comm.rank(), count)) {
    const std::size_t sizes[] = {mine.size()};
    buffer = std::move(comm.allocate(sizes, kLimit).front());
    fill();
    options.registered = buffer.get();
    options.data = buffer->data().data();
    options.count = count;
    options.dtype = dtype;
  }
  void fill() { std::copy(mine.begin(), mine.end(), buffer->data().begin()); }
  [[nodiscard]] bool holds(const std::vector<std::byte>& wanted) const {
    return std::memcmp(options.data, wanted.data(), wanted.size()) == 0;
  }
};

class Layouts : public testing::TestWithParam<HostLayout> {};
INSTANTIATE_TEST_SUITE_P(Hierarchical, Layouts,
                         testing::Values(HostLayout{0, 0, 1, 1}, HostLayout{0, 1, 0, 0}, HostLayout{0, 1, 2, 1, 0}),
                         [](const auto& it) { return text_of(it.param); });

// A slice of nine pieces and a bit, of which four are under way at a time.
TEST_P(Layouts, ManyPieces) {
  World world(GetParam());
  world.run([](Communicator& comm) {
    for (const auto& [dtype, op] : {std::pair(DType::f32, ReduceOp::average), std::pair(DType::i16, ReduceOp::average),
                                    std::pair(DType::bf16, ReduceOp::max)}) {
      if (kSanitized && dtype != DType::f32) continue;
      const std::size_t count = (std::size_t{19} << 20) / 8 + 1001;
      Registered data(comm, dtype, count);
      data.options.op = op;
      for (int repeat = 0; repeat < 2; ++repeat) {
        data.fill();
        comm.barrier(kLimit);
        comm.allreduce(data.options, kLimit);
        EXPECT_TRUE(data.holds(reduction(dtype, op, comm.size(), 0, count))) << name_of(dtype);
        comm.barrier(kLimit);
      }
    }
  });
}

// Where several pieces are under way flags go ahead of them.
TEST_P(Layouts, AVetoOfAnyRankLeavesManyPiecesAlone) {
  World world(GetParam());
  world.run([](Communicator& comm) {
    const std::size_t count = std::size_t{6} << 18;
    Registered data(comm, DType::f32, count);
    for (Rank speaker = 0; speaker <= comm.size(); ++speaker) {
      std::vector<std::uint64_t> flags = {comm.rank() == speaker ? 1U : 0U, 1U << comm.rank()};
      data.options.flags = {flags, 1};
      data.options.postscale = 2;
      comm.allreduce(data.options, kLimit);
      EXPECT_THAT(flags, testing::ElementsAre(speaker < comm.size() ? 1U : 0U, (1U << comm.size()) - 1));
      EXPECT_EQ(data.holds(data.mine), speaker < comm.size()) << speaker;
      comm.barrier(kLimit);
    }
  });
}

TEST_P(Layouts, OtherAlgorithmsCanBeAskedFor) {
  World world(GetParam());
  world.run([](Communicator& comm) {
    Registered data(comm, DType::f32, 100000);
    data.options.algorithm = Algorithm::ring;
    EXPECT_EQ(comm.explain(data.options).algorithm, Algorithm::ring);
    comm.allreduce(data.options, kLimit);
    EXPECT_TRUE(data.holds(reduction(DType::f32, ReduceOp::sum, comm.size(), 0, 100000)));
    data.options.algorithm = Algorithm::direct;
    EXPECT_THROW((void)comm.start(data.options), UsageError);
    data.options.algorithm = Algorithm::automatic;
    const Choice choice = comm.explain(data.options);
    EXPECT_EQ(choice.algorithm, Algorithm::hierarchical);
    EXPECT_THAT(choice.reason, HasSubstr("direct inside each host"));
    comm.barrier(kLimit);
  });
}

// A host that neither sends nor receives any more: the ranks of the other time out, and say whom they waited for.
TEST(Hierarchical, AHostThatFallsSilentIsNamed) {
  World world({0, 1, 0, 1});
  for (const std::size_t r : {1U, 3U}) {
    world.transports[r] = transport::make_faulty(std::move(world.transports[r]), {.kill_at = 1});
  }
  world.run([](Communicator& comm) {
    std::vector<float> data(100);
    AllreduceOptions options;
    options.data = reinterpret_cast<std::byte*>(data.data());
    options.count = data.size();
    try {
      comm.allreduce(options, 500ms);
      ADD_FAILURE() << "rank " << comm.rank() << " got through";
    } catch (const TimeoutError& error) {
      // One lane is enough for so little: its ranks wait for each other, the others for it.
      const std::vector<Rank> awaited[] = {{1}, {0}, {0}, {1}};
      EXPECT_EQ(error.missing(), awaited[comm.rank()]) << error.what();
    }
  });
}

// The rank of its lane is told who left; others, who see no message of it, wait until their deadline and no longer.
TEST(Hierarchical, ARankThatLeavesIsNamedByItsNumberInTheGroup) {
  World world({0, 1, 0, 1});
  const auto body = [](Communicator& comm) {
    Registered data(comm, DType::f32, 100000);
    data.options.algorithm = Algorithm::hierarchical;
    comm.barrier(kLimit);
    if (comm.rank() == 3) return;
    try {
      comm.allreduce(data.options, 500ms);
      ADD_FAILURE() << "rank " << comm.rank() << " got through";
    } catch (const PeerLostError& error) {
      EXPECT_EQ(comm.rank(), 2);
      EXPECT_EQ(error.rank(), 3);
    } catch (const TimeoutError& error) {
      EXPECT_NE(comm.rank(), 2);
      const Rank awaited = comm.rank() == 0 ? 1 : 3;  // rank 1 sends nothing across before rank 3 has come
      EXPECT_THAT(error.missing(), testing::ElementsAre(awaited));
    }
  };
  world.run(body, 3);
}

TEST(Hierarchical, PartsAreChecked) {
  World world({0, 0, 1});
  comm::HierarchicalParts parts;
  parts.hosts = hosts_of(world.layout);
  EXPECT_THROW((void)comm::make_hierarchical(parts), UsageError);  // no transport
  parts.whole.transport = world.transports[0].get();
  EXPECT_THROW((void)comm::make_hierarchical(parts), UsageError);  // no memory beside rank 1
  parts.whole.shared_memory = world.memories[2].get();
  EXPECT_THROW((void)comm::make_hierarchical(parts), UsageError);  // another host's
  parts.whole.shared_memory = world.memories[0].get();
  parts.hosts = {{0, 1}};
  EXPECT_THROW((void)comm::make_hierarchical(parts), UsageError);  // rank 2 stands nowhere
  parts.hosts = {{0, 1}, {2}, {}};
  EXPECT_THROW((void)comm::make_hierarchical(parts), UsageError);  // a host without ranks
}

}  // namespace
}  // namespace kolo::test
