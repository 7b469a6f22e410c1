#pragma once
// The gradient path without tensors: what the LibTorch binding stands on, and any other framework could.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kolo/export.h"
#include "kolo/gradient_memory.h"
#include "kolo/stream.h"
#include "kolo/types.h"

namespace KOLO_EXPORT kolo {

// One row of the table that all ranks must share: a parameter whose gradients are reduced.
struct GradientInfo {
  std::string name;
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> strides;  // of the gradient; dense, any order (is_dense()); empty: contiguous
  DType dtype = DType::f32;
  bool on_device = false;  // its memory is on this rank's device: ReducerOptions::device

  [[nodiscard]] std::size_t count() const noexcept {
    std::size_t result = 1;
    for (const auto extent : sizes) result *= static_cast<std::size_t>(extent);
    return result;
  }
  [[nodiscard]] std::size_t bytes() const noexcept { return count() * size_of(dtype); }
};

struct ReducerOptions {
  ReduceOp op = ReduceOp::average;  // sum or average; an average divides by the world size
  double prescale = 1.0;
  double postscale = 1.0;
  std::size_t bucket_bytes = 0;   // 0: from Config
  std::size_t in_place_from = 0;  // bytes; gradients from here on may lie in memory() (DistributedOptions). 0: none
  int device = -1;                // the one that gradients on a device are on: this rank's own affair
  // The caller keeps contributed memory alive for as long as it reads the round's results. A rank that is
  // alone then hands out as the result what it was given, where that lies, and copies nothing: gradient() is another
  // place in each round, and empty where nothing was contributed. With prescale, postscale and in_place_from as here.
  bool contributions_stay = false;
  std::string settings;  // anything else that must agree on all ranks; compared, never read
  // Not empty: why this rank cannot take part. make_reducer() then throws a UsageError on all ranks.
  std::string refused{};
  // As `settings`, for settings that may change. finish() calls this function in each round that ranks
  // negotiate: the first one, and those without a valid plan, as after a change of the table. May be empty.
  std::function<std::string()> current_settings{};
  // Gives the device back what the program's allocator keeps of it and does not use. Called when some rank's device has
  // no memory for a bucket, which is then asked for once more; in any thread, as long as the reducer lives, and inside
  // calls of kolo's: it must not call kolo itself. Empty: nothing is kept.
  std::function<void()> release_cached_memory{};
};

// One optimizer's gradients. A *round* is what it contributes between two finish() calls. Call from one thread at a
// time.
//
//   contribute(i, p) ... contribute(j, q)     any order, any subset; a bucket leaves as soon as it is full
//   finish()                                  the rest counts as zeros; waits; throws typed errors
//   gradient(i), contributed(i)               the results, in kolo's memory, until the next contribute()
//
// Gradients on a device come with the stream in which they are ready, and finish() names the stream in which the
// results are wanted. With NCCL nothing of it waits for the device: finish() waits until the hosts have agreed and
// everything is enqueued. Where the hosts reduce (Config::device_reduction), finish() also waits until the gradients
// have come from the device and are reduced; not until the results are back there.
class GradientReducer {
 public:
  virtual ~GradientReducer() = default;
  // Packs `data` (dense, in the table's strides) into its bucket and launches the bucket when it is
  // full. Never blocks. `data` must live unchanged until finish() has returned, because a round that a peer voids is
  // sent again; on a device until what is enqueued by then in finish()'s stream has passed. `ready` lives as long as
  // the reducer: when a round fails, also by an exception that takes the reducer away, it is made to wait for what
  // still reads `data`. Throws UsageError when i was already contributed in this round, or is not where its row says.
  virtual void contribute(std::size_t index, const void* data, Stream ready) = 0;
  void contribute(std::size_t index, const void* data) { contribute(index, data, Stream{}); }
  // The same for data that kolo may write to. A whole block of memory() is not packed: peers read it where it is, and
  // the reduced gradient is written over it. Anything else is packed. After an error the data is neither one nor the
  // other.
  virtual void contribute_in_place(std::size_t index, void* data) { contribute(index, data, Stream{}); }
  // Where gradients for contribute_in_place() can be made. Another one with each new plan (generation()); null before
  // the first plan, and without ReducerOptions::in_place_from.
  [[nodiscard]] virtual std::shared_ptr<GradientMemory> memory() const { return nullptr; }
  // This rank's table has changed (new parameter, other shape): the peers learn it in this round, all tensors of which
  // are matched again by name, and the new table holds from the next round. Peers whose table differs get
  // MismatchError.
  virtual void change_table(std::vector<GradientInfo> table) = 0;
  // Says before finish() that here this step needs another round after this one, and for what. Where peers do not say
  // the same, and would take that round for one of their next step, finish() throws MismatchError on all ranks.
  virtual void need_another_round(const std::string& what) = 0;
  // A hash of the values that this rank's last update used and that all ranks must share, such as learning rates. It
  // holds for the next round and travels in the flags of its buckets. 0, the value after each round, agrees with any.
  // If the hashes of two ranks differ, finish() throws MismatchError on all ranks. Call it between two rounds.
  virtual void set_step_fingerprint(std::uint64_t fingerprint) = 0;
  // Closes the round and waits until every bucket is reduced, making progress itself meanwhile.
  // `user`: the stream, of ReducerOptions::device, that is to read results on a device; it waits for them, not the
  // host. It lives as long as the reducer.
  // Throws MismatchError, PeerFailedError, PeerLostError, TimeoutError; after the first two the next round works.
  void finish(Stream user) { finish(user, {}); }
  void finish() { finish(Stream{}); }
  // The same, and `reduced` is called with each tensor as soon as it is reduced, by the calling thread, while others
  // are still on their way: gradient() and contributed() are right for that one. It must neither throw nor call kolo
  // otherwise, and may be called for tensors of a round that fails. Not called for gradients on a device, nor in a
  // round that ranks negotiate (the first one, and when a table has changed).
  using OnReduced = std::function<void(std::size_t index)>;
  virtual void finish(Stream user, const OnReduced& reduced) = 0;
  // Where the reduced gradient of the last finished round lies: in kolo's memory, valid until the next round's
  // contribute(); or over the block that was contributed in place; or where it was contributed
  // (ReducerOptions::contributions_stay).
  [[nodiscard]] virtual std::span<std::byte> gradient(std::size_t index) = 0;
  // Whether any rank contributed it in the last finished round; if none did, gradient(index) is all zeros.
  [[nodiscard]] virtual bool contributed(std::size_t index) const = 0;
  // Changes whenever gradient() pointers may have changed: with a new plan. (ReducerOptions::contributions_stay: not
  // where a rank is alone.)
  [[nodiscard]] virtual std::uint64_t generation() const noexcept = 0;
  // As errors and warnings call it: "gradients/0". The same on all ranks.
  [[nodiscard]] virtual std::string name() const = 0;
  // Number of the round that the next contribute() belongs to. Grows when a round ends, by finish() or by a failure.
  [[nodiscard]] virtual std::uint64_t round() const noexcept = 0;
  // Moves launched buckets forward without blocking.
  virtual void progress() = 0;
};

}  // namespace kolo
