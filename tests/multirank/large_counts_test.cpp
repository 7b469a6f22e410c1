// More elements than an int counts, over shared memory, in the way of every algorithm: 2 GiB a rank, used in turn.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <limits>

#include "cluster/make.h"
#include "comm/make.h"
#include "kolo/error.h"
#include "kolo/spi/communicator.h"
#include "telemetry/counters.h"
#include "transport/make.h"

namespace kolo::test {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kCount = (std::size_t{1} << 31) + 7;  // i8
constexpr auto kTimeout = 100s;
constexpr std::size_t kPeriod = 31;  // divides no power of two: whatever is off by a multiple of 2^k shows

// Sums of up to four ranks fit an i8.
std::int8_t value(Rank rank, std::size_t index) {
  return static_cast<std::int8_t>(static_cast<int>(index % kPeriod) - 15 + rank);
}

std::int8_t sum(int ranks, std::size_t index) {
  int total = 0;
  for (Rank rank = 0; rank < ranks; ++rank) total += value(rank, index);
  return static_cast<std::int8_t>(total);
}

// Writes element_of(i) to every place, or counts where it is not; a period at a time, for speed.
template <class Element>
void fill(std::span<std::byte> bytes, Element element_of) {
  std::int8_t pattern[kPeriod];
  for (std::size_t i = 0; i < kPeriod; ++i) pattern[i] = element_of(i);
  for (std::size_t at = 0; at < bytes.size(); at += kPeriod) {
    std::memcpy(bytes.data() + at, pattern, std::min(kPeriod, bytes.size() - at));
  }
}

template <class Element>
std::size_t first_wrong(std::span<const std::byte> bytes, Element element_of) {
  std::int8_t pattern[kPeriod];
  for (std::size_t i = 0; i < kPeriod; ++i) pattern[i] = element_of(i);
  for (std::size_t at = 0; at < bytes.size(); at += kPeriod) {
    if (std::memcmp(bytes.data() + at, pattern, std::min(kPeriod, bytes.size() - at)) != 0) return at;
  }
  return bytes.size();
}

// GiB that this host has left.
std::size_t available_gib() {
  std::ifstream file("/proc/meminfo");
  std::string name;
  for (std::size_t kib = 0; file >> name >> kib; file.ignore(std::numeric_limits<std::streamsize>::max(), '\n')) {
    if (name == "MemAvailable:") return kib >> 20;
  }
  return 0;
}

class LargeCounts : public testing::Test {
 protected:
  LargeCounts()
      : bootstrap_(cluster::make_mpi_bootstrap()),
        memory_(transport::make_process_shared_memory(*bootstrap_, kTimeout)),
        transport_(transport::make_shm(*bootstrap_, *memory_, kTimeout)) {
    comm::AlgorithmicParts parts;
    parts.transport = transport_.get();
    parts.shared_memory = memory_.get();
    parts.counters = &counters_;
    shared_ = comm::make_algorithmic(parts);
  }

  // Whether every rank sees enough, in GiB: 2 of its own, 1 for what MPI copies.
  bool enough_memory() {
    const std::size_t needed = 3 * static_cast<std::size_t>(shared_->size()) + 1;
    auto low = static_cast<std::int64_t>(available_gib());
    AllreduceOptions options;
    options.data = reinterpret_cast<std::byte*>(&low);
    options.count = 1;
    options.dtype = DType::i64;
    options.op = ReduceOp::min;
    shared_->allreduce(options, kTimeout);
    if (low >= static_cast<std::int64_t>(needed)) return true;
    reason_ = "needs " + std::to_string(needed) + " GiB of free memory, this host has " + std::to_string(low);
    return false;
  }

  void reduce_and_check(Communicator& communicator, const AllreduceOptions& options, const char* what) {
    const std::span<std::byte> data(options.data, kCount);
    fill(data, [&](std::size_t i) { return value(communicator.rank(), i); });
    communicator.allreduce(options, kTimeout);
    const int ranks = communicator.size();
    EXPECT_EQ(first_wrong(data, [ranks](std::size_t i) { return sum(ranks, i); }), kCount) << what;
  }

  std::unique_ptr<cluster::Bootstrap> bootstrap_;
  std::unique_ptr<transport::SharedMemory> memory_;
  std::unique_ptr<transport::Transport> transport_;
  telemetry::Counters counters_;
  std::unique_ptr<Communicator> shared_;
  std::string reason_;
};

TEST_F(LargeCounts, AreReducedAndBroadcastByEveryAlgorithm) {
  if (!enough_memory()) GTEST_SKIP() << reason_;
  const std::size_t bytes = kCount;
  const auto buffers = shared_->allocate(std::span(&bytes, 1), kTimeout);
  AllreduceOptions options;
  options.data = buffers.front()->data().data();
  options.count = kCount;
  options.dtype = DType::i8;
  options.registered = buffers.front().get();
  options.algorithm = Algorithm::direct;
  reduce_and_check(*shared_, options, "direct, in place");

  options.registered = nullptr;  // the same memory, as if it were private
  reduce_and_check(*shared_, options, "direct, private memory");

  // Recursive doubling would need three messages' memory more; it is for small ones.
  for (const Algorithm algorithm : {Algorithm::ring, Algorithm::tree, Algorithm::halving_doubling}) {
    options.algorithm = algorithm;
    reduce_and_check(*shared_, options, "messages through shared memory");
  }

  options.algorithm = Algorithm::automatic;
  reduce_and_check(*comm::make_mpi(), options, "MPI");

  const Rank root = shared_->size() - 1;
  const auto from_root = [root](std::size_t i) { return value(root, i); };
  const std::span<std::byte> data(options.data, kCount);
  if (shared_->rank() == root) fill(data, from_root);
  shared_->broadcast({options.data, kCount, root}, kTimeout);
  EXPECT_EQ(first_wrong(data, from_root), kCount) << "broadcast";
}

}  // namespace
}  // namespace kolo::test
