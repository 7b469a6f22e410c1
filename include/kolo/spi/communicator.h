#pragma once
// Collectives of one group of ranks, as blocking calls and as operations that the caller advances.
//
//   kolo::AllreduceOptions options;
//   options.data = reinterpret_cast<std::byte*>(values.data());
//   options.count = values.size();
//   context.communicator().allreduce(options);  // f32 sums, in place
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kolo/detail/export.h"
#include "kolo/types.h"

namespace KOLO_EXPORT kolo {

// A collective in flight. Externally synchronized. It advances only inside advance(). If it is destroyed before it is
// complete, its memory must outlive the communicator.
class Operation {
 public:
  virtual ~Operation() = default;
  // Advances as far as possible without waiting. Returns true once complete; further calls are not needed. Throws
  // PeerLostError, PeerFailedError, BackendError, and TimeoutError only for GPU operations. Do not call it again after
  // an error.
  virtual bool advance() = 0;
  // Ranks of the group that this rank waits for now; for error texts and stall reports.
  [[nodiscard]] virtual std::vector<Rank> waiting_for() const = 0;
};

// Memory that kolo allocated for a group. Ranks of one host map each other's buffers, so collectives access them
// without copies. Owned by the caller; usable with its Communicator only, but may outlive it.
class RegisteredBuffer {
 public:
  virtual ~RegisteredBuffer() = default;
  // The memory of this rank: aligned to 64 bytes, and zero at first.
  [[nodiscard]] virtual std::span<std::byte> data() noexcept = 0;
};

// Words that travel with an allreduce. They are combined by OR, never scaled or cast. After completion each rank holds
// the OR over all ranks. A rank vetoes the allreduce by a bit of `veto` in word 0; then all ranks keep their data.
struct FlagWords {
  std::span<std::uint64_t> words;  // at most kMaxFlagWords; the same count on all ranks
  std::uint64_t veto = 0;
  // REQUIRES: words that hold the OR.
  [[nodiscard]] bool vetoed() const noexcept { return !words.empty() && (words[0] & veto) != 0; }
};
inline constexpr std::size_t kMaxFlagWords = 64;

// Counts are elements. All ranks pass equal options, except pointers. One Communicator handles either CPU memory or
// memory of one device.
//
// Stream order: CPU memory must be ready when the call is made. With a device stream, the operation is enqueued there
// behind earlier work, and later work of the stream finds the result. advance() returns true after the device has
// completed the operation.
//
// Scales multiply floating-point elements before and after the reduction: f64 in fp64, other types in fp32. Integers
// and boolean need 1; otherwise start() throws UsageError.
struct AllreduceOptions {
  std::byte* data = nullptr;  // in and out
  std::size_t count = 0;
  DType dtype = DType::f32;
  ReduceOp op = ReduceOp::sum;
  double prescale = 1.0;
  double postscale = 1.0;
  RegisteredBuffer* registered = nullptr;  // the buffer that contains `data`; null: private memory
  FlagWords flags{};                       // in CPU memory; not with a device stream
  Algorithm algorithm = Algorithm::automatic;
  Stream stream{};
};

// One logical array of AllreduceOptions::count elements, in segments at different addresses on each rank:
//
//   array     [ segment 0 | segment 1 | segment 2 ]      begins = {0, 512, 1024}, equal on all ranks
//   rank 0      in data     in home     in data          segments = {null, address, null}
//   rank 1      in home     in data     in data          segments = {address, null, null}
//
// A segment lies at its position in AllreduceOptions::data, or at a multiple of 64 bytes in `home`. All memory named
// here must live until completion.
struct SegmentedBuffer {
  std::span<const std::size_t> begins;   // elements; ascending from 0, each at a multiple of 64 bytes of the whole
  std::span<std::byte* const> segments;  // of each segment: its address in `home`, or null if it lies in `data`
  RegisteredBuffer* home = nullptr;      // from the same call of allocate() on all ranks

  // The operation also writes this many bytes behind the last element of AllreduceOptions::data, at the next multiple
  // of 64 bytes of the registered buffer.
  [[nodiscard]] static constexpr std::size_t table_bytes(std::size_t segments) {
    return segments * sizeof(std::uint64_t);
  }
};

struct BroadcastOptions {
  std::byte* data = nullptr;  // in at root, out elsewhere
  std::size_t bytes = 0;
  Rank root = 0;
  Stream stream{};
};

// Rank r contributes counts[r] bytes; `output` holds all contributions in rank order. `input` is this rank's part of
// `output`, or does not overlap with it.
struct AllgatherOptions {
  const std::byte* input = nullptr;
  std::span<const std::size_t> counts;  // bytes, one for each rank, equal on all ranks; must live until completion
  std::byte* output = nullptr;
  Stream stream{};
};

// Rank r receives counts[r] elements of the reduction, after those of the ranks before it. `input` does not change.
struct ReduceScatterOptions {
  const std::byte* input = nullptr;
  std::span<const std::size_t> counts;  // elements, one for each rank; must live until completion
  std::byte* output = nullptr;
  DType dtype = DType::f32;
  ReduceOp op = ReduceOp::sum;
  Stream stream{};
};

// The algorithm that an allreduce would use, and the reason as text.
struct Choice {
  Algorithm algorithm = Algorithm::automatic;
  std::string reason;
  double predicted_us = 0;  // by the cost model; 0: no prediction
};

// The collectives of one group. All ranks make the same calls in the same order. Several operations may be in flight
// and may complete in any order. Externally synchronized.
//
// start() does not wait for other ranks, with one exception: on one host, the first start() on private memory may block
// until all ranks call it, unless allocate() was called before.
class Communicator {
 public:
  virtual ~Communicator() = default;
  [[nodiscard]] virtual Rank rank() const noexcept = 0;
  [[nodiscard]] virtual int size() const noexcept = 0;

  // Blocking calls: start, then advance until complete. They throw TimeoutError after `timeout`, by default after
  // default_timeout(). Later calls then throw at once, because the calls of the ranks no longer match.
  using Timeout = std::optional<std::chrono::milliseconds>;
  void allreduce(const AllreduceOptions& options, Timeout timeout = std::nullopt);
  void broadcast(const BroadcastOptions& options, Timeout timeout = std::nullopt);
  void allgather(const AllgatherOptions& options, Timeout timeout = std::nullopt);
  void reduce_scatter(const ReduceScatterOptions& options, Timeout timeout = std::nullopt);
  void barrier(Timeout timeout = std::nullopt);

  [[nodiscard]] virtual std::unique_ptr<Operation> start(const AllreduceOptions& options) = 0;
  // Reduces segments; `options.registered` is required. Only if supports_segmented().
  [[nodiscard]] virtual std::unique_ptr<Operation> start_segmented(const AllreduceOptions& options,
                                                                   const SegmentedBuffer& buffer);
  [[nodiscard]] virtual std::unique_ptr<Operation> start(const BroadcastOptions& options) = 0;
  [[nodiscard]] virtual std::unique_ptr<Operation> start(const AllgatherOptions& options) = 0;
  [[nodiscard]] virtual std::unique_ptr<Operation> start(const ReduceScatterOptions& options) = 0;
  [[nodiscard]] virtual std::unique_ptr<Operation> start_barrier() = 0;
  // Advances one operation until it is complete: spins, then yields, then sleeps. `what` names it in errors.
  void drive(Operation& operation, std::chrono::milliseconds timeout, std::string_view what);
  // Collective: every rank passes the same sizes (bytes). Blocks until all ranks call it; throws TimeoutError after
  // `timeout`. Buffers of different calls share no page, so that each can be page-locked.
  [[nodiscard]] virtual std::vector<std::unique_ptr<RegisteredBuffer>> allocate(std::span<const std::size_t> sizes,
                                                                                std::chrono::milliseconds timeout) = 0;

  // True if all ranks share one host and its memory, or if each host has one rank.
  [[nodiscard]] virtual bool supports_segmented() const noexcept { return false; }
  [[nodiscard]] virtual Choice explain(const AllreduceOptions& options) const = 0;
  // The error that ended the group, which later calls throw. Null: none that this rank knows of.
  [[nodiscard]] virtual std::exception_ptr failure() const noexcept { return nullptr; }
  // Config::timeout, for the communicator of a Context.
  [[nodiscard]] std::chrono::milliseconds default_timeout() const noexcept { return default_timeout_; }
  void set_default_timeout(std::chrono::milliseconds timeout) noexcept { default_timeout_ = timeout; }
  // If an operation in drive() waits longer than `after`, calls `tell` once with a text that names the ranks.
  void warn_of_stalls(std::chrono::milliseconds after, std::function<void(const std::string&)> tell);

  // Subclasses override the following functions, which drive() and Context call:

  // Blocks until an operation may be able to advance, or until `at_most` has passed. May return early.
  virtual void wait_for_activity(std::chrono::microseconds at_most) = 0;
  // Returns true if a shared-memory operation advanced since the last call and is still incomplete. Its peers are
  // running, so the caller should spin instead of sleeping.
  [[nodiscard]] virtual bool made_progress() noexcept { return false; }
  // Aborts all operations in flight; later calls throw. Device communicators override it, because a device kernel waits
  // forever for a lost rank. Algorithms on CPU memory have deadlines and do not need it.
  virtual void abort() noexcept {}
  // Called by Context::shutdown(): later collectives, allocate() and drive() throw UsageError.
  void close() noexcept { closed_ = true; }

 protected:
  // How long start() may block inside a blocking call.
  [[nodiscard]] std::chrono::milliseconds start_limit() const noexcept { return start_limit_; }
  // Advances all other operations in flight, so that ranks may wait for operations in different orders.
  virtual void progress() {}
  // Throws UsageError after close(). Each start() and allocate() begins with it.
  void require_open() const;
  // Makes later calls throw `error`.
  virtual void end_by(std::exception_ptr /*error*/) noexcept {}
  // How often drive() polls before it yields, and how long it yields before it sleeps.
  [[nodiscard]] virtual int spin_iterations() const noexcept { return 1; }
  [[nodiscard]] virtual std::chrono::microseconds yield_time() const noexcept { return std::chrono::milliseconds(2); }

 private:
  bool spin(Operation& operation);
  // Starts the operation that `start` returns, and drives it.
  template <class Start>
  void run(const Start& start, Timeout limit, std::string_view what);

  bool closed_ = false;
  std::chrono::milliseconds default_timeout_{std::chrono::minutes(10)};
  std::chrono::milliseconds start_limit_ = std::chrono::milliseconds::max();
  std::chrono::milliseconds stall_warning_ = std::chrono::milliseconds::max();
  std::function<void(const std::string&)> tell_stall_;
};

}  // namespace kolo
