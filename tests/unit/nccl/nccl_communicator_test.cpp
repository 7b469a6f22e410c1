// Collectives of device memory over the simulated NCCL: results under many schedules, order among streams, registered
// memory, and what is refused.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <vector>

#include "kolo/error.h"
#include "kolo/spi/communicator.h"
#include "support/scoped_variable.h"
#include "support/thread_ranks.h"
#include "unit/nccl/nccl_end.h"

namespace kolo::test {
namespace {

using namespace std::chrono_literals;
using nccl::Result;

TEST(NcclCommunicator, SumsOverTwoRanks) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    NcclRanks ranks(2, {.seed = seed});
    run_ranks(2, [&](int rank) {
      NcclEnd end(ranks, ranks.parts(rank), 100);
      end.communicator->allreduce(end.options(), 60s);
      const auto values = end.values();
      for (std::size_t i = 0; i < values.size(); ++i) EXPECT_EQ(values[i], static_cast<float>(2 * i + 1)) << seed;
    });
  }
}

// One result is the next one's input, in streams that only the communicator orders; the host waits at the end only.
void mixed_program(NcclRanks& ranks, int rank, int size) {
  constexpr std::size_t kCount = 64;
  NcclEnd end(ranks, ranks.parts(rank), kCount);
  end.fill(std::vector<float>(kCount, static_cast<float>(rank + 1)));
  cuda::OwnStream other(ranks.runtime, rank);
  Communicator& comm = *end.communicator;
  AllreduceOptions average = end.options();
  average.op = ReduceOp::average;
  average.prescale = 2;
  const auto averaged = comm.start(average);  // size + 1 everywhere
  std::vector<std::size_t> counts(static_cast<std::size_t>(size), 0);
  counts[0] = 3;
  counts[static_cast<std::size_t>(size) - 1] += kCount - 3;  // uneven, some of them empty
  cuda::DeviceBuffer part(ranks.runtime, rank, kCount * sizeof(float));
  const ReduceScatterOptions scatter{end.memory.data(), counts, part.data(), DType::f32, ReduceOp::max, other.view()};
  const auto scattered = comm.start(scatter);
  std::vector<std::size_t> bytes;
  for (const std::size_t count : counts) bytes.push_back(count * sizeof(float));
  const auto gathered = comm.start(AllgatherOptions{part.data(), bytes, end.memory.data(), end.stream.view()});
  const auto sent = comm.start(BroadcastOptions{end.memory.data(), 8, size - 1, other.view()});
  comm.barrier(60s);
  for (const auto& operation : {averaged.get(), scattered.get(), gathered.get(), sent.get()}) {
    comm.drive(*operation, 60s, "part of a program");
  }
  EXPECT_EQ(end.values(), std::vector<float>(kCount, static_cast<float>(size + 1)));
}

TEST(NcclCommunicator, MixedProgramsUnderManySchedules) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    const int size = 1 + static_cast<int>(seed % 4);
    NcclRanks ranks(size, {.seed = seed});
    run_ranks(size, [&](int rank) { mixed_program(ranks, rank, size); });
    if (HasFailure()) FAIL() << "seed " << seed;
  }
}

// Two communicators at the same time, made under different values of NCCL_ALGO.
TEST(NcclCommunicator, TakesTheAlgorithmOfNcclAlgoWhenItIsMade) {
  NcclRanks ranks(2);
  std::vector<std::unique_ptr<NcclEnd>> rings(2), trees(2);
  const auto make = [&](const char* algorithm, std::vector<std::unique_ptr<NcclEnd>>& ends) {
    const ScopedVariable variable("NCCL_ALGO", algorithm);
    run_ranks(2, [&](int rank) {
      ends[static_cast<std::size_t>(rank)] = std::make_unique<NcclEnd>(ranks, ranks.parts(rank), 100);
    });
  };
  make("allreduce:ring", rings);
  make("allreduce:tree", trees);
  run_ranks(2, [&](int rank) {
    const auto r = static_cast<std::size_t>(rank);
    for (int i = 0; i < 3; ++i) rings[r]->communicator->allreduce(rings[r]->options(), 60s);
    for (int i = 0; i < 2; ++i) trees[r]->communicator->allreduce(trees[r]->options(), 60s);
    EXPECT_NE(rings[r]->communicator->explain(rings[r]->options()).reason.find("NCCL_ALGO"), std::string::npos);
    rings[r].reset();
    trees[r].reset();
  });
  EXPECT_EQ(ranks.nccl.launched(SimulatedAlgorithm::ring), 6);
  EXPECT_EQ(ranks.nccl.launched(SimulatedAlgorithm::tree), 4);
}

TEST(NcclCommunicator, RegistersItsMemory) {
  NcclRanks ranks(2);
  run_ranks(2, [&](int rank) {
    NcclEnd end(ranks, ranks.parts(rank), 4);
    const std::size_t sizes[] = {100, 0, 4096};
    const auto buffers = end.communicator->allocate(sizes, 60s);
    ASSERT_EQ(buffers.size(), 3U);
    EXPECT_EQ(buffers[2]->data().size(), 4096U);
    AllreduceOptions options = end.options();
    options.data = buffers[2]->data().data();
    options.count = 1024;
    options.registered = buffers[2].get();
    end.communicator->allreduce(options, 60s);
  });
  EXPECT_EQ(ranks.nccl.calls("register_buffer"), 6);
  EXPECT_EQ(ranks.nccl.calls("deregister_buffer"), 6);
}

TEST(NcclCommunicator, RegistersNothingIfThatIsOff) {
  NcclRanks ranks(2);
  run_ranks(2, [&](int rank) {
    nccl::NcclParts parts = ranks.parts(rank);
    parts.registers_buffers = false;
    NcclEnd end(ranks, parts, 4);
    const std::size_t sizes[] = {100};
    const auto buffers = end.communicator->allocate(sizes, 60s);
    EXPECT_EQ(buffers[0]->data().size(), 100U);
  });
  EXPECT_EQ(ranks.nccl.calls("allocate"), 0);
  EXPECT_EQ(ranks.nccl.calls("register_buffer"), 0);
}

// Registrations end with the communicator; the memory stays.
TEST(NcclCommunicator, BuffersMayOutliveIt) {
  NcclRanks ranks(2);
  run_ranks(2, [&](int rank) {
    NcclEnd end(ranks, ranks.parts(rank), 4);
    const std::size_t sizes[] = {100};
    const auto buffers = end.communicator->allocate(sizes, 60s);
    end.communicator.reset();
    EXPECT_EQ(buffers[0]->data().size(), 100U);
  });
  EXPECT_EQ(ranks.nccl.calls("deregister_buffer"), 2);
  EXPECT_EQ(ranks.nccl.calls("release"), 2);
}

// The communicator ends while a sum is in flight that nothing waits for: the sum is carried out, then the registration
// ends.
TEST(NcclCommunicator, RegistrationsEndBehindWhatUsesThem) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    NcclRanks ranks(2, {.seed = seed});
    run_ranks(2, [&](int rank) {
      NcclEnd end(ranks, ranks.parts(rank), 4);
      const std::size_t sizes[] = {256};
      const auto buffers = end.communicator->allocate(sizes, 60s);
      AllreduceOptions options = end.options();
      options.data = buffers[0]->data().data();
      options.registered = buffers[0].get();
      const auto sum = end.communicator->start(options);
      end.communicator.reset();
      EXPECT_TRUE(sum->advance());
    });
    EXPECT_EQ(ranks.nccl.calls("deregister_buffer"), 2);
    EXPECT_EQ(ranks.nccl.aborted_communicators(), 0);
    if (HasFailure()) FAIL() << "seed " << seed;
  }
}

// One rank's NCCL takes no memory: no rank keeps registered memory.
TEST(NcclCommunicator, FallsBackToPlainMemoryOnAllRanks) {
  NcclRanks ranks(3);
  ranks.nccl.fail("register_buffer", Result::unhandled_cuda_error);
  run_ranks(3, [&](int rank) {
    NcclEnd end(ranks, ranks.parts(rank), 4);
    const std::size_t sizes[] = {256};
    const auto buffers = end.communicator->allocate(sizes, 60s);
    AllreduceOptions options = end.options();
    options.data = buffers[0]->data().data();
    options.registered = buffers[0].get();
    end.communicator->allreduce(options, 60s);
    EXPECT_EQ(ranks.nccl.calls("register_buffer"), 3);  // the failing one, too
    EXPECT_EQ(ranks.nccl.calls("deregister_buffer"), 2);
    EXPECT_EQ(ranks.nccl.calls("release"), 3);
  });
}

// What is being cleared already goes when that is done: what is released in use is a failure of the simulated device.
TEST(NcclCommunicator, MemoryThatCannotBeClearedGoesWhenTheDeviceIsDoneWithIt) {
  NcclRanks ranks(1);
  static cuda::RuntimeApi real;
  real = ranks.device.api();
  cuda::RuntimeApi api = real;
  api.fill = [](void* memory, int value, std::size_t bytes, cuda::StreamHandle stream) {
    return bytes == 2048 ? 999 : real.fill(memory, value, bytes, stream);
  };
  ranks.runtime = std::make_shared<const cuda::Runtime>(api);
  NcclEnd end(ranks, ranks.parts(0), 4);
  const std::size_t sizes[] = {4096, 2048};
  EXPECT_THROW((void)end.communicator->allocate(sizes, 60s), BackendError);
}

TEST(NcclCommunicator, AllRanksHearWhenMemoryRunsOut) {
  NcclRanks ranks(2);
  run_ranks(2, [&](int rank) {
    NcclEnd end(ranks, ranks.parts(rank), 4);
    const std::size_t sizes[] = {rank == 0 ? std::size_t{64} : std::size_t{1} << 40};
    EXPECT_THROW((void)end.communicator->allocate(sizes, 60s), BackendError);
    end.communicator->allreduce(end.options(), 60s);
  });
}

void expect_refused(const std::function<void()>& call, const std::string& word) {
  try {
    call();
    ADD_FAILURE() << "not refused: " << word;
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
  }
}

TEST(NcclCommunicator, RefusesWhatItCannotDo) {
  NcclRanks ranks(1);
  nccl::NcclParts parts = ranks.parts(0);
  NcclEnd end(ranks, parts, 16);
  Communicator& comm = *end.communicator;
  const auto refused = [&](const std::string& word, const std::function<void(AllreduceOptions&)>& change) {
    AllreduceOptions options = end.options();
    change(options);
    expect_refused([&] { (void)comm.start(options); }, word);
  };
  refused("i32", [](AllreduceOptions& options) { options.dtype = DType::i16; });
  refused("cannot average i32", [](AllreduceOptions& options) {
    options.dtype = DType::i32;
    options.op = ReduceOp::average;
  });
  refused("CPU memory", [](AllreduceOptions& options) { options.stream = {}; });
  refused("device 7", [](AllreduceOptions& options) { options.stream.device = 7; });
  for (const Algorithm algorithm : {Algorithm::ring, Algorithm::tree, Algorithm::recursive_doubling}) {
    refused("set NCCL_ALGO=allreduce:ring", [&](AllreduceOptions& options) { options.algorithm = algorithm; });
  }
  std::vector<std::uint64_t> words(1);
  refused("flag words", [&](AllreduceOptions& options) { options.flags.words = words; });
  const std::vector<std::size_t> counts{1};
  expect_refused([&] { (void)comm.start(BroadcastOptions{end.memory.data(), 4, 0}); }, "CPU memory");
  expect_refused(
      [&] {
        (void)comm.start(AllgatherOptions{end.memory.data(), counts, end.memory.data()});
      },
      "CPU memory");
  expect_refused(
      [&] {
        (void)comm.start(ReduceScatterOptions{end.memory.data(), counts, end.memory.data()});
      },
      "CPU memory");
  EXPECT_EQ(ranks.nccl.calls("all_reduce"), 0);
}

TEST(NcclCommunicator, WithoutDeviceCodeThereIsNoAverage) {
  NcclRanks ranks(2);
  run_ranks(2, [&](int rank) {
    nccl::NcclParts parts = ranks.parts(rank);
    parts.kernels = nullptr;
    NcclEnd end(ranks, parts, 16);
    AllreduceOptions options = end.options();
    options.op = ReduceOp::average;
    expect_refused([&] { (void)end.communicator->start(options); }, "device code");
    options.op = ReduceOp::sum;
    end.communicator->allreduce(options, 60s);
  });
}

}  // namespace
}  // namespace kolo::test
