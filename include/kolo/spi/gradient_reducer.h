#pragma once
// A GradientReducer collects raw gradient memory in buckets and reduces them; for bindings of frameworks.
//
//   auto reducer = context.engine().make_reducer({{.name = "weight", .sizes = {512}}}, {});
//   reducer->contribute(0, gradient);           // during backward
//   reducer->finish();                          // before the update
//   use(reducer->gradient(0));                  // the average over all ranks
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kolo/detail/export.h"
#include "kolo/types.h"

namespace KOLO_EXPORT kolo {

// Describes one gradient. All ranks pass the same list, the table.
struct GradientInfo {
  std::string name;
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> strides;  // of the gradient; dense, any order (is_dense()); empty: contiguous
  DType dtype = DType::f32;
  bool on_device = false;  // true: its memory is on the device ReducerOptions::device

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
  std::size_t in_place_from = 0;  // gradients of at least this many bytes may lie in memory(). 0: none
  int device = -1;                // of the gradients on a device; may differ between ranks
  // If true, the caller keeps contributed memory alive while it uses the results. With one rank, gradient() then
  // returns that memory without a copy, or an empty span for a row without a contribution. Requires the defaults of
  // prescale, postscale and in_place_from.
  bool contributions_stay = false;
  std::string settings;  // any other settings that must be equal on all ranks; compared only
  // Not empty: why this rank cannot take part. make_reducer() then throws UsageError on all ranks.
  std::string refused{};
  // As `settings`, for settings that may change. finish() calls it in each negotiated round: the first one, and each
  // one in which ranks must agree on new buckets (a new plan). May be empty.
  std::function<std::string()> current_settings{};
  // Returns unused memory of the program's allocator to the device. Called if a rank's device has no memory for a
  // bucket; the allocation is then tried once more. Called in any thread while the reducer lives, also inside calls of
  // kolo, so it must not call kolo. May be empty.
  std::function<void()> release_cached_memory{};
};

// Memory of a GradientReducer for gradients, which are then reduced without a copy. Thread-safe. It lives until the
// reducer and all holders of blocks have released it.
class GradientMemory {
 public:
  virtual ~GradientMemory() = default;
  // A block for a gradient of exactly `bytes`, aligned to 64 bytes. Null if none is free or no gradient has this size.
  [[nodiscard]] virtual void* take(std::size_t bytes) noexcept = 0;
  // REQUIRES: `block` is from take(). A contributed block may be returned at any time; it is taken again only after
  // its round, because peers and the network use it until then.
  virtual void give_back(void* block) noexcept = 0;
  [[nodiscard]] virtual bool owns(const void* data) const noexcept = 0;
};

// The gradients of one optimizer. A round is the reduction of all contributions between two finish() calls. In the
// first round ranks negotiate a plan, the assignment of gradients to buckets; later rounds use it until a table
// changes. Use from one thread at a time.
//
// Stream order: contribute() takes the stream in which a gradient is ready, and finish() the stream that will read the
// results. With NCCL no call waits for the device: finish() waits until the ranks have agreed and all work is enqueued.
// With DeviceReduction::host and ::mixed, finish() waits until the gradients have left the device and are reduced, but
// not until the results are back.
class GradientReducer {
 public:
  virtual ~GradientReducer() = default;
  // Packs `data` (dense, in the strides of the table) into its bucket, and starts the reduction of a full bucket. Never
  // blocks. `data` must stay unchanged until finish() returns; on a device, until the work that finish()'s stream then
  // holds is complete. `ready` must outlive the reducer, because kolo enqueues waits on it after a failed round. Throws
  // UsageError if row `index` was already contributed in this round, or its memory is not where its row says.
  virtual void contribute(std::size_t index, const void* data, Stream ready) = 0;
  void contribute(std::size_t index, const void* data) { contribute(index, data, Stream{}); }
  // The same for data that kolo may overwrite. A whole block of memory() is not packed: peers read it in place, and the
  // reduced gradient replaces it. Other data is packed. After an error the content is undefined.
  virtual void contribute_in_place(std::size_t index, void* data) { contribute(index, data, Stream{}); }
  // Memory for contribute_in_place(): a new object after each change of generation(). Null before the first plan, and
  // without ReducerOptions::in_place_from.
  [[nodiscard]] virtual std::shared_ptr<GradientMemory> memory() const { return nullptr; }
  // Changes this rank's table, for a new parameter or another shape. This round still reduces gradients by name; the
  // new table applies to the next round. If tables differ, finish() throws MismatchError on all ranks.
  virtual void change_table(std::vector<GradientInfo> table) = 0;
  // Announces before finish() that this rank needs another round in this step, and why. All ranks announce the same;
  // otherwise finish() throws MismatchError on all ranks.
  virtual void need_another_round(const std::string& what) = 0;
  // A hash of the values that this rank's last update used and that all ranks must share, such as learning rates. If
  // the hashes of two ranks differ, the next finish() throws MismatchError on all ranks. Each finish() resets it to 0,
  // which matches every value. Call it between two rounds.
  virtual void set_step_fingerprint(std::uint64_t fingerprint) = 0;
  // Closes the round: rows without a contribution count as zeros. Waits until every bucket is reduced, and advances
  // operations meanwhile. The stream `user` of ReducerOptions::device, not the CPU, waits for results on a device; it
  // must outlive the reducer. Throws MismatchError, PeerFailedError, PeerLostError, TimeoutError; after the first two
  // the next round works.
  void finish(Stream user) { finish(user, {}); }
  void finish() { finish(Stream{}); }
  // The same; the calling thread calls `reduced` for each gradient as soon as it is reduced, while others are in
  // flight. Inside `reduced`, only gradient(index) and contributed(index) may be called; it must not throw. The round
  // may still fail afterwards. `reduced` is not called for gradients on a device, nor in a negotiated round.
  using OnReduced = std::function<void(std::size_t index)>;
  virtual void finish(Stream user, const OnReduced& reduced) = 0;
  // The reduced gradient of the last finished round: kolo's bucket memory, valid until the next contribute(), or the
  // caller's memory for contributions in place and with ReducerOptions::contributions_stay.
  [[nodiscard]] virtual std::span<std::byte> gradient(std::size_t index) = 0;
  // True if any rank contributed the row in the last finished round. If false, gradient(index) is all zeros.
  [[nodiscard]] virtual bool contributed(std::size_t index) const = 0;
  // Grows with each new plan: gradient() addresses may then change. With one rank and
  // ReducerOptions::contributions_stay they change in each round.
  [[nodiscard]] virtual std::uint64_t generation() const noexcept = 0;
  // The name in errors and warnings: "gradients/0". Equal on all ranks.
  [[nodiscard]] virtual std::string name() const = 0;
  // The number of the current round. It grows when a round ends, by finish() or by a failure.
  [[nodiscard]] virtual std::uint64_t round() const noexcept = 0;
  // Advances started buckets without blocking.
  virtual void progress() = 0;
};

}  // namespace kolo
