#pragma once
// Memory of the simulated device as CUDA's caching allocator gives it to tensors. A freed block belongs to the stream
// that it was allocated in: the next allocation there may have it at once, because whatever the stream does with it
// comes after what it did before. Other streams that used it must be recorded; then it goes back when the host finds
// that they have passed.
//
// Whoever gets a freed block may write to it at once; so freeing is itself an operation that writes all of it, in the
// block's stream. A use in another stream that nobody recorded races with that, in every schedule, also when nobody
// happens to be given the block.
#include <c10/core/Allocator.h>
#include <c10/core/Stream.h>

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "support/torch_device/torch_streams.h"

namespace kolo::test {

// The end of what a stream was to do when a block was freed.
struct StreamEnd {
  c10::Stream stream;
  cuda::EventHandle event;
};

struct TorchBlock {
  void* data = nullptr;
  std::size_t bytes = 0;
  c10::Stream stream;                // that it was allocated in
  std::uint64_t generation = 0;      // of its allocator
  std::vector<c10::Stream> users{};  // others that use it
  std::vector<StreamEnd> ends{};     // of these, once it is free
};

// Thread-safe. Its lock is taken before the device's: no operation frees a tensor of the device.
class CachingAllocator {
 public:
  CachingAllocator(SimulatedDevice& device, const cuda::RuntimeApi& api, TorchStreams& streams,
                   std::uint64_t generation)
      : device_(device), api_(api), streams_(streams), generation_(generation) {}

  // In the current stream of the current device.
  [[nodiscard]] c10::DataPtr allocate(std::size_t bytes);
  void record(const c10::DataPtr& data, const c10::Stream& stream);
  void ignore_records();

  [[nodiscard]] int records() const;
  [[nodiscard]] int reused() const;
  [[nodiscard]] std::size_t live() const;
  // Gives everything back to the device. Returns how many blocks are still in use, after some time for threads that are
  // about to free theirs.
  [[nodiscard]] std::size_t close();

 private:
  static void free_data(void* block);  // the DataPtrs' deleter
  void free(std::unique_ptr<TorchBlock> block);
  void collect();
  [[nodiscard]] bool has_passed(const TorchBlock& block, const StreamEnd& end);
  void put_back(std::unique_ptr<TorchBlock> block);
  void queue_overwrite(const TorchBlock& block);

  SimulatedDevice& device_;
  const cuda::RuntimeApi& api_;
  TorchStreams& streams_;
  const std::uint64_t generation_;
  mutable std::mutex lock_;
  std::condition_variable freed_;
  std::size_t live_ = 0;
  int records_ = 0;
  int reused_ = 0;
  bool ignores_records_ = false;
  using Key = std::pair<c10::Stream, std::size_t>;  // of exactly this size: the simulator sees a write beside it
  struct Before {
    bool operator()(const Key& a, const Key& b) const;
  };
  std::map<Key, std::vector<std::unique_ptr<TorchBlock>>, Before> free_;
  std::vector<std::unique_ptr<TorchBlock>> in_use_;  // free, but for their users
  std::vector<void*> allocated_;
};

}  // namespace kolo::test
