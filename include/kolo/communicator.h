#pragma once
// Collectives of one group of ranks, as resumable operations and as blocking calls.
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

#include "kolo/export.h"
#include "kolo/stream.h"
#include "kolo/types.h"

namespace KOLO_EXPORT kolo {

// A collective in flight. Externally synchronized. It makes progress only inside advance(); destroying it before it is
// complete abandons it: its memory must then outlive the communicator.
class Operation {
 public:
  virtual ~Operation() = default;
  // Moves as far as it can go without waiting. True once complete; then it need not be called again.
  // Throws PeerLostError, PeerFailedError, BackendError, or on a device TimeoutError; the operation is dead afterwards.
  virtual bool advance() = 0;
  // Ranks (of the group) that this rank is waiting for at the moment; for error texts and stall reports.
  [[nodiscard]] virtual std::vector<Rank> waiting_for() const = 0;
};

// Memory that kolo allocated for a group, so that collectives can work in it in place. On one host every rank's
// memory is mapped by all ranks of the host. Owned by the caller; of use to its Communicator only, but may outlive it.
class RegisteredBuffer {
 public:
  virtual ~RegisteredBuffer() = default;
  [[nodiscard]] virtual std::span<std::byte> data() noexcept = 0;  // this rank's memory, 64-byte aligned, zero at first
};

// Words that travel with an allreduce and are combined by OR, never scaled or cast. After completion every rank holds
// the OR over all ranks. When (word 0 & veto) is not 0 in that OR, no rank's data has been changed.
struct FlagWords {
  std::span<std::uint64_t> words;  // at most kMaxFlagWords; the same count on all ranks
  std::uint64_t veto = 0;
  // Of words that are already the OR.
  [[nodiscard]] bool vetoed() const noexcept { return !words.empty() && (words[0] & veto) != 0; }
};
inline constexpr std::size_t kMaxFlagWords = 64;

// What an allreduce may be asked for by name. docs/algorithms.md says what each is and costs.
enum class Algorithm : std::uint8_t {
  automatic,
  direct,
  ring,
  tree,
  halving_doubling,
  recursive_doubling,
  hierarchical,
  mpi
};

// Counts are elements. `registered` names the buffer in which `data` lies (whole or in part), or null for private
// memory. `stream` says where the memory is ready: on the host when the call is made, or on a device behind what is
// enqueued in that stream by then; the operation is enqueued there too, so that what is enqueued later finds its
// result, and Operation::advance() says whether the device has passed it. A Communicator takes memory of the host or
// memory of one device, not both. All ranks pass equal options, pointers apart. Prescale and postscale multiply
// floating-point elements before and after the reduction (in fp32 for 16-bit types, fp64 for f64); integers and boolean
// take 1 only.
struct AllreduceOptions {
  std::byte* data = nullptr;  // in and out
  std::size_t count = 0;
  DType dtype = DType::f32;
  ReduceOp op = ReduceOp::sum;
  double prescale = 1.0;
  double postscale = 1.0;
  RegisteredBuffer* registered = nullptr;
  FlagWords flags{};  // of the host's memory; not with a stream
  Algorithm algorithm = Algorithm::automatic;
  Stream stream{};
};

// An allreduce whose elements lie apart, piece by piece, where each rank happens to have them. Piece k holds elements
// [begins[k], begins[k + 1]) of the whole, the last one up to AllreduceOptions::count. Where pieces begin is the same
// on all ranks; where one lies is each rank's own affair: at its position in `data`, or on a 64-byte line in `home`.
// Everything named here must live until completion.
struct Scattering {
  std::span<const std::size_t> begins;  // elements; ascending from 0, each at a 64-byte line of the whole
  std::span<std::byte* const> places;   // of each piece on this rank: in `home`, or null: in `data`
  RegisteredBuffer* home = nullptr;     // of the same call of allocate() on all ranks

  // So many bytes of the registered buffer, from the next 64-byte line behind `data` on, belong to the operation.
  [[nodiscard]] static constexpr std::size_t table_bytes(std::size_t pieces) { return pieces * sizeof(std::uint64_t); }
};

struct BroadcastOptions {
  std::byte* data = nullptr;  // in at root, out elsewhere
  std::size_t bytes = 0;
  Rank root = 0;
  Stream stream{};
};

// Uneven: rank r contributes counts[r] bytes; `output` holds all, in rank order. `input` is this rank's part of
// `output` or lies apart from it.
struct AllgatherOptions {
  const std::byte* input = nullptr;
  std::span<const std::size_t> counts;  // bytes, one per rank, the same on all ranks; must live until completion
  std::byte* output = nullptr;
  Stream stream{};
};

// Rank r receives elements [sum of counts before r, + counts[r]) of the reduction. `input` is left as it was.
struct ReduceScatterOptions {
  const std::byte* input = nullptr;
  std::span<const std::size_t> counts;  // elements, one per rank
  std::byte* output = nullptr;
  DType dtype = DType::f32;
  ReduceOp op = ReduceOp::sum;
  Stream stream{};
};

// What would be used for an allreduce, and why, in words fit to print.
struct Choice {
  Algorithm algorithm = Algorithm::automatic;
  std::string reason;
  double predicted_us = 0;  // by the cost model; 0: it knows nothing of it
};

// One group's collectives. All ranks make the same calls in the same order; several operations may be in flight and may
// complete in any order. Externally synchronized.
//
// start() does not wait for other ranks, but for once: on one host the first operation on memory that kolo did not
// allocate makes shared memory together with all ranks, unless allocate() has been there before.
class Communicator {
 public:
  virtual ~Communicator() = default;
  [[nodiscard]] virtual Rank rank() const noexcept = 0;
  [[nodiscard]] virtual int size() const noexcept = 0;

  [[nodiscard]] virtual std::unique_ptr<Operation> start(const AllreduceOptions& options) = 0;
  // The same on data that lies apart; `options` name a registered buffer. Only where can_scatter().
  [[nodiscard]] virtual std::unique_ptr<Operation> start_scattered(const AllreduceOptions& options,
                                                                   const Scattering& scattering);
  [[nodiscard]] virtual std::unique_ptr<Operation> start(const BroadcastOptions& options) = 0;
  [[nodiscard]] virtual std::unique_ptr<Operation> start(const AllgatherOptions& options) = 0;
  [[nodiscard]] virtual std::unique_ptr<Operation> start(const ReduceScatterOptions& options) = 0;
  [[nodiscard]] virtual std::unique_ptr<Operation> start_barrier() = 0;
  // Collective: every rank passes the same sizes (bytes). Waits for the group until `timeout`. Memory of one call
  // shares no page with that of another, so that it can be page-locked by itself.
  [[nodiscard]] virtual std::vector<std::unique_ptr<RegisteredBuffer>> allocate(std::span<const std::size_t> sizes,
                                                                                std::chrono::milliseconds timeout) = 0;
  // Whether an allreduce may be scattered: on one host, whose ranks reach each other's registered memory, and where
  // every rank has a host of its own, round the ring.
  [[nodiscard]] virtual bool can_scatter() const noexcept { return false; }
  // What has ended the group for these calls: later ones throw it. Null: none that this rank knows of.
  [[nodiscard]] virtual std::exception_ptr failure() const noexcept { return nullptr; }
  [[nodiscard]] virtual Choice explain(const AllreduceOptions& options) const = 0;
  // Blocks until something may have happened that lets an operation advance, or until `at_most` has passed. May return
  // early.
  virtual void wait_for_activity(std::chrono::microseconds at_most) = 0;
  // Ends everything in flight, whoever still waits for it; later calls throw. For memory of devices, which wait for a
  // lost rank without end; what works in the host's memory knows deadlines and does nothing here.
  virtual void give_up() noexcept {}
  // Whether an operation on shared memory made progress since this was last asked, and is not complete: then its peers
  // are close by, and whoever waits does better not to sleep.
  [[nodiscard]] virtual bool moved() noexcept { return false; }

  // Blocking forms: start, then advance until complete. Throw TimeoutError after `timeout`, by default after
  // default_timeout(), and from then on at once: ranks that have abandoned a call and ranks that have not are no group
  // any more.
  using Timeout = std::optional<std::chrono::milliseconds>;
  void allreduce(const AllreduceOptions& options, Timeout timeout = std::nullopt);
  void broadcast(const BroadcastOptions& options, Timeout timeout = std::nullopt);
  void allgather(const AllgatherOptions& options, Timeout timeout = std::nullopt);
  void reduce_scatter(const ReduceScatterOptions& options, Timeout timeout = std::nullopt);
  void barrier(Timeout timeout = std::nullopt);
  // Drives one operation: spins, then yields, then sleeps. `what` names it in the error.
  void drive(Operation& operation, std::chrono::milliseconds timeout, std::string_view what);
  // Config::timeout, for the communicator of a Context.
  [[nodiscard]] std::chrono::milliseconds default_timeout() const noexcept { return default_timeout_; }
  void set_default_timeout(std::chrono::milliseconds timeout) noexcept { default_timeout_ = timeout; }
  // By Context::shutdown(): from now on collectives, allocate() and drive() throw UsageError.
  void close() noexcept { closed_ = true; }
  // From now on drive() calls `tell`, once an operation, when that has waited for so long, in words that say for whom.
  void warn_of_stalls(std::chrono::milliseconds after, std::function<void(const std::string&)> tell);

 protected:
  // How long start() may wait for the group, where it must at all: what the blocking form that calls it was given.
  [[nodiscard]] std::chrono::milliseconds start_limit() const noexcept { return start_limit_; }
  // Lets the other operations in flight advance too, so that ranks may wait for theirs in different orders.
  virtual void progress() {}
  // Throws UsageError after close(). Every start() and allocate() begins with it.
  void require_open() const;
  // All later calls are to throw `error`.
  virtual void end_by(std::exception_ptr /*error*/) noexcept {}
  // How often drive() looks before it yields, and how long it yields before it sleeps.
  [[nodiscard]] virtual int spin_iterations() const noexcept { return 1; }
  [[nodiscard]] virtual std::chrono::microseconds yield_time() const noexcept { return std::chrono::milliseconds(2); }

 private:
  bool spin(Operation& operation);
  // Starts what `start` makes, and drives it.
  template <class Start>
  void run(const Start& start, Timeout limit, std::string_view what);

  bool closed_ = false;
  std::chrono::milliseconds default_timeout_{std::chrono::minutes(10)};
  std::chrono::milliseconds start_limit_ = std::chrono::milliseconds::max();
  std::chrono::milliseconds stall_warning_ = std::chrono::milliseconds::max();
  std::function<void(const std::string&)> tell_stall_;
};

}  // namespace kolo
