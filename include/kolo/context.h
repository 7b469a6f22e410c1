#pragma once
// The composition root: who we are, the communicator, the engine, and their end.
#include <concepts>
#include <memory>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include "kolo/communicator.h"
#include "kolo/config.h"
#include "kolo/counters.h"
#include "kolo/engine.h"
#include "kolo/error.h"
#include "kolo/export.h"
#include "kolo/types.h"

namespace KOLO_EXPORT kolo {

// One rank's place in a world of ranks. Several may live in one process. Thread-safe but for shutdown().
class Context {
 public:
  // Started by mpirun (or srun with PMIx): the world is MPI_COMM_WORLD. Started plainly: one rank. Collective. Throws
  // UsageError (a launcher's world that is not there, a variable out of range), MismatchError (settings that must be
  // the same on all ranks are not), TimeoutError (a rank does not come), BackendError.
  static std::unique_ptr<Context> create(Config config = Config::from_environment());
  // As create(), over the ranks of `mpi_comm` (a MPI_Comm*, read during the call); see kolo/mpi.h.
  static std::unique_ptr<Context> create_over(const void* mpi_comm, Config config = Config::from_environment());
  // `ranks` ranks that are threads of this process: element r belongs to rank r and is used from that rank's threads.
  // A template, so that a list in braces is always the list of hosts below: create_local({0}) has one rank.
  template <std::convertible_to<int> Count>
  static std::vector<std::unique_ptr<Context>> create_local(Count ranks, const Config& config = {}) {
    return create_local_ranks(static_cast<int>(ranks), config);
  }
  // The same, said to stand on several hosts: element r is the number of rank r's host. Ranks of one host share memory,
  // others exchange messages, so that a program's behaviour on several hosts can be tried in one process.
  static std::vector<std::unique_ptr<Context>> create_local(const std::vector<int>& hosts, const Config& config = {});
  // After a rank was lost: the survivors of `old` as a world of their own, renumbered in the order of their old ranks.
  // Collective over old.survivors(). `old` is shut down and may be destroyed afterwards; nothing of it is used again.
  // If `old` was shut down before, throws UsageError. If another rank is lost meanwhile, throws
  // PeerLostError: call it again. After TimeoutError do not call it again, because a surviving rank
  // does not come (docs/faults.md).
  static std::unique_ptr<Context> create_over_survivors(Context& old, const Config& config);
  static std::unique_ptr<Context> create_over_survivors(Context& old);  // with the old configuration
  // Calls shutdown(), which ends what was listed before and says goodbye; never throws.
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  [[nodiscard]] const Placement& placement() const noexcept;
  [[nodiscard]] Rank rank() const noexcept { return placement().rank; }
  [[nodiscard]] int size() const noexcept { return placement().size; }
  [[nodiscard]] const Config& config() const noexcept;

  // Collectives as plain calls, in the same order on all ranks. Independent of the engine's. Externally synchronized.
  // After shutdown() this call and those of the Communicator throw UsageError.
  [[nodiscard]] Communicator& communicator();
  // Returns when all ranks have called it. Collective, as a call of communicator(); throws TimeoutError after
  // Config::timeout.
  void barrier() { communicator().barrier(); }
  // After shutdown() each call of the Engine that needs other ranks throws UsageError.
  [[nodiscard]] Engine& engine() noexcept;
  [[nodiscard]] CounterSnapshot counters() const;
  void log(LogLevel level, std::string_view line) const;

  // Why this Context cannot be used any more, as far as this rank knows by now: what its calls throw. Null: it can. So
  // an error that was caught can be told from the end of the group. From the thread that uses communicator(); asks
  // nobody.
  [[nodiscard]] std::exception_ptr failure() const noexcept;

  // The ranks that go on after a loss, ascending, as all of them have agreed; all ranks when nobody is lost. Waits for
  // the agreement, at most twice Config::monitor_timeout and 10 s more, or Config::timeout where that is less. Throws
  // PeerLostError when the ranks left here are no majority, or when this rank has been given up itself: then it must
  // end. TimeoutError when a rank does not answer, UsageError where there is no monitor (KOLO_MONITOR=off).
  [[nodiscard]] std::vector<Rank> survivors();

  // For the thread that steps. Runs training code so that an exception in it reaches the peers as PeerFailedError
  // instead of leaving them waiting; rethrows it here. Peers that have gone on to a collective of communicator() which
  // this rank has not come to get it there, and the group ends; otherwise the next round works.
  template <class F>
  decltype(auto) run(F&& body) {
    try {
      return std::forward<F>(body)();
    } catch (const std::exception& error) {
      engine().fail_round(error);
      throw;
    } catch (...) {
      engine().fail_round(std::runtime_error("what was thrown is no std::exception"));
      throw;
    }
  }

  // DistributedOptimizer::step() does not wait for GPUs: a collective that fails afterwards, because a rank is lost or
  // is late, is the next call's error. This waits until all have ended, and throws what one of them failed with. What a
  // step() that had returned has updated is right once this returns: call it before weights are saved, or a result is
  // told. Local; at once where nothing is in flight, as on the CPU. At most about Config::timeout.
  void wait_for_devices() { engine().wait_for_devices(); }

  // Ends the engine. Completes operations that all ranks have submitted, then waits for devices: each at
  // most min(config().timeout, 30 s). Other pending Work fails with UsageError. The goodbye takes at most
  // 2 s. Afterwards collectives throw UsageError at once; placement(), config(), counters(), log(),
  // failure() and survivors() (the ranks of the last agreement) stay usable. Idempotent.
  void shutdown();

  struct Parts;
  explicit Context(std::unique_ptr<Parts> parts);

 private:
  static std::vector<std::unique_ptr<Context>> create_local_ranks(int ranks, const Config& config);

  std::unique_ptr<Parts> parts_;
};

}  // namespace kolo
