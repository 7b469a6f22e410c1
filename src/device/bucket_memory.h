#pragma once
// One bucket's memory on a device: gradients are noted as they come, and packed and reduced together.
#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "device/lane.h"
#include "kernels/tensor_table.h"

namespace kolo::device {

struct BucketShape {
  DType dtype = DType::f32;
  std::size_t bytes = 0;
  std::vector<kernels::TensorPlace> places;  // of each gradient, by slot
};

// contribute() and seal() belong to the thread that contributes, the rest to whoever holds the engine's progress lock;
// one after the other in a round.
class BucketMemory {
 public:
  // Collective, because memory that NCCL knows is. Waits for the group until `timeout`.
  BucketMemory(Lane& lane, BucketShape shape, std::chrono::milliseconds timeout);

  // A new round: nothing is contributed.
  void open();
  // `data` is ready in `ready`, and stays until what hand_to() orders.
  void contribute(std::size_t slot, const void* data, Stream ready);
  // All has come that will; what is missing counts as zeros. What is enqueued later in the streams of the contributions
  // is not waited for.
  void seal();
  // Enqueues: pack, each element multiplied by `scale`, then the sum over all ranks.
  void reduce(double scale);
  // What is enqueued in `user` from now on finds the sums. REQUIRES: reduce().
  void hand_to(Stream user);
  [[nodiscard]] std::byte* data() noexcept { return memory_->data().data(); }  // not for the host to read

 private:
  Lane& lane_;
  BucketShape shape_;
  std::unique_ptr<RegisteredBuffer> memory_;  // what lies between gradients stays zero
  kernels::TensorTable table_;
  std::vector<void*> sources_;      // by slot; null: zeros
  std::vector<Stream> streams_;     // of this round's contributions, each once
  std::vector<cuda::Event> ready_;  // in them
  cuda::Event done_;
};

}  // namespace kolo::device
