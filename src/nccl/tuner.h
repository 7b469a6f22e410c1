#pragma once
// Ring or tree, call by call. NCCL has no parameter for it, but asks a tuner what each algorithm would cost before it
// takes the cheapest; with NCCL_TUNER_PLUGIN=STATIC_PLUGIN it finds that tuner in this very process, by its name.
// Ours makes what was not wished for dear.
#include <cstddef>
#include <cstdint>

#include "base/deadline.h"
#include "kolo/communicator.h"

namespace kolo::nccl {

// Holds for all collectives that are enqueued while it lives, whichever thread of NCCL's enqueues them: a communicator
// that does not block its caller works in threads of its own. So it is the process's, not the thread's, and two that
// differ wait for each other, until `deadline`; TimeoutError then. `automatic` is a wish like the others: that nobody
// else's shall hold.
class AlgorithmWish {
 public:
  AlgorithmWish(Algorithm algorithm, const base::Deadline& deadline);
  ~AlgorithmWish();
  AlgorithmWish(const AlgorithmWish&) = delete;
  AlgorithmWish& operator=(const AlgorithmWish&) = delete;
};

// Whether NCCL has found the tuner, as it does when it makes a communicator. It looks once in a process: in vain where
// another part of the program had one made before kolo's was wanted.
[[nodiscard]] bool tuner_has_begun() noexcept;

// NCCL's numbers, and its table of costs in microseconds: algorithms by rows, protocols by columns, negative where
// that combination cannot be.
struct CostTable {
  static constexpr int kTree = 0;
  static constexpr int kRing = 1;
  float* costs = nullptr;
  int algorithms = 0;
  int protocols = 0;
};
// Leaves the table as it is where the algorithm cannot be at all, and cells of what cannot be in any case.
void prefer(Algorithm algorithm, const CostTable& table);

// ncclTuner_v5_t.
struct TunerV5 {
  const char* name;
  int (*init)(void** context, std::uint64_t communicator, std::size_t ranks, std::size_t nodes, void* logger,
              void* domains, void* constants);
  int (*collective_info)(void* context, int function, std::size_t bytes, int pipelined, float** costs, int algorithms,
                         int protocols, int registered, int* channels);
  int (*finalize)(void* context);
};
inline constexpr int kAllreduceFunction = 4;  // ncclFuncAllReduce

}  // namespace kolo::nccl

extern "C" {
// By this name NCCL finds it, in the symbols of the process.
extern const kolo::nccl::TunerV5 ncclTunerPlugin_v5 __attribute__((visibility("default")));
}
