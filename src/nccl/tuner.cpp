#include "nccl/tuner.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>

#include "kolo/error.h"

namespace kolo::nccl {
namespace {

// NCCL finds a tuner by its symbol, once for the process: what it is told must be the process's too.
struct Wishes {
  std::mutex lock;
  std::condition_variable changed;
  Algorithm algorithm = Algorithm::automatic;
  int holders = 0;
  std::atomic<bool> begun = false;
};

Wishes& wishes() {
  static auto* const only = new Wishes;  // never destroyed: threads of NCCL's may ask while the process ends
  return *only;
}

}  // namespace

AlgorithmWish::AlgorithmWish(Algorithm algorithm, const base::Deadline& deadline) {
  Wishes& all = wishes();
  std::unique_lock lock(all.lock);
  const bool free =
      all.changed.wait_for(lock, deadline.left(), [&] { return all.holders == 0 || all.algorithm == algorithm; });
  if (!free) {
    throw TimeoutError({},
                       "NCCL: another thread of this process has been enqueueing a collective with another algorithm "
                       "until the deadline");
  }
  all.algorithm = algorithm;
  ++all.holders;
}

AlgorithmWish::~AlgorithmWish() {
  Wishes& all = wishes();
  const std::lock_guard lock(all.lock);
  if (--all.holders != 0) return;
  all.algorithm = Algorithm::automatic;
  all.changed.notify_all();
}

bool tuner_has_begun() noexcept { return wishes().begun.load(); }

void prefer(Algorithm algorithm, const CostTable& table) {
  constexpr float kDear = 1e15F;  // microseconds; what NCCL computes for itself is far below
  const int wanted = algorithm == Algorithm::ring ? CostTable::kRing : CostTable::kTree;
  if ((algorithm != Algorithm::ring && algorithm != Algorithm::tree) || wanted >= table.algorithms) return;
  const float* const row = table.costs + wanted * table.protocols;
  if (std::all_of(row, row + table.protocols, [](float cost) { return cost < 0; })) return;
  for (int i = 0; i < table.algorithms * table.protocols; ++i) {
    if (i / table.protocols != wanted && table.costs[i] >= 0) table.costs[i] = kDear;
  }
}

namespace {

constexpr int kSuccess = 0;

int start(void** context, std::uint64_t /*communicator*/, std::size_t /*ranks*/, std::size_t /*nodes*/,
          void* /*logger*/, void* /*domains*/, void* /*constants*/) {
  *context = nullptr;
  wishes().begun.store(true);
  return kSuccess;
}

// NCCL declares the table as float**, and means an array of rows.
int advise(void* /*context*/, int function, std::size_t /*bytes*/, int /*pipelined*/, float** costs, int algorithms,
           int protocols, int /*registered*/, int* /*channels*/) {
  if (function != kAllreduceFunction) return kSuccess;
  Wishes& all = wishes();
  const std::lock_guard lock(all.lock);
  prefer(all.algorithm, {reinterpret_cast<float*>(costs), algorithms, protocols});
  return kSuccess;
}

int end(void* /*context*/) { return kSuccess; }

}  // namespace
}  // namespace kolo::nccl

const kolo::nccl::TunerV5 ncclTunerPlugin_v5 = {"kolo", kolo::nccl::start, kolo::nccl::advise, kolo::nccl::end};
