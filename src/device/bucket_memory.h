#pragma once
// One bucket's memory on a device: gradients are noted as they come, and packed and reduced together.
//
//   lane:  [ pack ][ sum ]                     where devices reach all ranks
//          [ pack ][ fetch ] ... [ put ]       where hosts reduce: what was fetched, when that has come
//          [ pack ][ gather ] ... [ spread ]   where hosts carry shares between hosts (staged_crossing.h)
#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "device/lane.h"
#include "device/share.h"
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
  // What was contributed may be gone: zeros are packed in its place.
  void let_go();
  // Each of these enqueues. pack() multiplies each element by `scale`; sum() adds up what all ranks have.
  void pack(double scale);
  void sum();
  // The parts of a sum that hosts carry across: in between they add up what the ranks of share() have in it.
  void gather();
  void spread();
  [[nodiscard]] std::span<std::byte> share() noexcept { return share_.of(memory_->data()); }
  // Copies to and from memory of the host, page-locked and as long as the bucket, which the host leaves alone
  // meanwhile.
  void fetch(std::span<std::byte> host);
  void put(std::span<const std::byte> host);
  // Whether the host may read what the last fetch() has copied. Throws BackendError.
  [[nodiscard]] bool fetched() const { return fetched_.passed(); }
  // What is enqueued in `user` from now on finds the results. REQUIRES: sum(), spread() or put().
  void hand_to(Stream user);
  [[nodiscard]] std::byte* data() noexcept { return memory_->data().data(); }  // not for the host to read

 private:
  Lane& lane_;
  BucketShape shape_;
  Share share_;
  std::shared_ptr<RegisteredBuffer> memory_;  // what lies between gradients, and behind them, stays zero
  kernels::TensorTable table_;
  std::vector<void*> sources_;      // by slot; null: zeros
  std::vector<Stream> streams_;     // of this round's contributions, each once
  std::vector<cuda::Event> ready_;  // in them
  cuda::Event fetched_;
  cuda::Event done_;
};

}  // namespace kolo::device
