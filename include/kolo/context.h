#pragma once
// A Context represents one rank of a distributed job. Create it first and destroy it last.
//
//   const std::unique_ptr<kolo::Context> context = kolo::Context::create();  // in a process that mpirun started
//   context->run([&] { train(*context); });  // an exception reaches the other ranks
//   context->shutdown();                     // before the process reports success
#include <concepts>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kolo/config.h"
#include "kolo/detail/export.h"
#include "kolo/types.h"
#include "kolo/work.h"

namespace KOLO_EXPORT kolo {

class Communicator;
class Engine;

// Counters of one Context by name ("control_messages", "bytes_on_wire", "plan_hits"); docs/formats.md lists them.
// Subtract two snapshots to get the counts of the interval between them.
using CounterSnapshot = std::map<std::string, std::uint64_t>;

// One process may hold several Contexts. Calls are thread-safe, except barrier(), communicator(), failure() and
// shutdown(), which need external synchronization.
//
// Some errors make a Context unusable: every later call then throws. docs/errors.md says which.
class Context {
 public:
  // Over MPI_COMM_WORLD; initialises MPI if needed. Without a launcher, the Context has one rank. Collective. Throws
  // UsageError if MPI reports fewer ranks than the launcher started or a Config field is out of range, MismatchError if
  // ranks have different values of a setting that must be equal, TimeoutError if a rank is missing, BackendError.
  static std::unique_ptr<Context> create(Config config = Config::from_environment());
  // Programs call kolo::create_context() of kolo/mpi.h instead. `mpi_comm` points to an MPI_Comm, which is duplicated.
  static std::unique_ptr<Context> create_over(const void* mpi_comm, Config config = Config::from_environment());
  // One Context for each rank in this process; each rank uses its Context from its own threads. A braced list selects
  // the overload with hosts: create_local({0, 0, 1}).
  template <std::convertible_to<int> Count>
  static std::vector<std::unique_ptr<Context>> create_local(Count ranks, const Config& config = {}) {
    return create_local_ranks(static_cast<int>(ranks), config);
  }
  // For tests: hosts[r] is the emulated host of rank r. Ranks of one host share memory; other ranks exchange messages.
  static std::vector<std::unique_ptr<Context>> create_local(const std::vector<int>& hosts, const Config& config = {});
  // A Context over old.survivors(), with ranks renumbered from 0 in their old order. Collective over the survivors. A
  // successful call shuts `old` down; it may then be destroyed. Throws UsageError if `old` was shut down before.
  // After PeerLostError `old` stays open: call again, as long as survivors() gets shorter. After TimeoutError do not
  // call again, because a survivor is missing (docs/faults.md).
  static std::unique_ptr<Context> create_over_survivors(Context& old, const Config& config);
  static std::unique_ptr<Context> create_over_survivors(Context& old);  // with the old settings
  ~Context();                                                           // calls shutdown(); never throws
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  [[nodiscard]] const Placement& placement() const noexcept;
  [[nodiscard]] Rank rank() const noexcept { return placement().rank; }
  [[nodiscard]] int size() const noexcept { return placement().size; }
  [[nodiscard]] const Config& config() const noexcept;

  // Starts an asynchronous collective; see Request. Does not wait for other ranks. Throws UsageError for a reserved or
  // pending name, for an unnamed request from a second thread, and after shutdown(). A request that one rank cannot
  // execute fails on all ranks: each Work throws the same UsageError, which names that rank.
  Work submit(Request request);
  // Returns when all ranks have called it. A Communicator call: all ranks make Communicator calls in the same order,
  // one thread of a rank at a time. Throws TimeoutError after Config::timeout.
  void barrier();

  // Runs training code and returns its result. Not collective. If `body` throws, the exception is rethrown here and
  // reaches the other ranks as PeerFailedError. Training can then continue with the next step, unless another rank
  // waits in a Communicator call that this rank did not reach: then the Context is unusable.
  template <class F>
  decltype(auto) run(F&& body) {
    try {
      return std::forward<F>(body)();
    } catch (const std::exception& error) {
      report_failure(error);
      throw;
    } catch (...) {
      report_failure(std::runtime_error("an exception that is not a std::exception"));
      throw;
    }
  }

  // Blocks until the GPU collectives of this rank are complete, and throws the error of a failed one. step() does not
  // wait for GPUs, so call this before weights are saved. Returns at once on CPUs. Takes at most about Config::timeout.
  void wait_for_devices();

  // The error that made this Context unusable, or null if only a step or a request has failed. Call it from the thread
  // that makes Communicator calls. Local.
  [[nodiscard]] std::exception_ptr failure() const noexcept;
  // The remaining ranks after a loss, by old number, ascending, equal on all survivors; all ranks if none is lost.
  // Waits for the agreement at most min(2 * Config::monitor_timeout + 10 s, Config::timeout). Throws PeerLostError if
  // this rank is excluded or in a minority: the process must then end. Throws TimeoutError if a rank does not answer,
  // UsageError without a monitor (KOLO_MONITOR=off).
  [[nodiscard]] std::vector<Rank> survivors();

  // Completes requests that all ranks have submitted, then waits for GPUs; each phase takes at most
  // min(Config::timeout, 30 s). Other pending requests fail with UsageError. The notification of the other ranks takes
  // at most 2 s more; their later collectives throw an error that names this rank. Afterwards collectives throw
  // UsageError; placement(), config(), counters(), log(), failure() and survivors() (of the last agreement) still
  // work. Not collective. Idempotent.
  void shutdown();

  [[nodiscard]] CounterSnapshot counters() const;
  // Writes a line to Config::log_sink.
  void log(LogLevel level, std::string_view line) const;

  // The Communicator of this group (kolo/spi/communicator.h). After shutdown() its calls throw UsageError.
  [[nodiscard]] Communicator& communicator();
  // For bindings of other frameworks (kolo/spi/engine.h).
  [[nodiscard]] Engine& engine() noexcept;

  struct Parts;
  explicit Context(std::unique_ptr<Parts> parts);

 private:
  static std::vector<std::unique_ptr<Context>> create_local_ranks(int ranks, const Config& config);
  void report_failure(const std::exception& error) noexcept;

  std::unique_ptr<Parts> parts_;
};

// Returns the text `mine` of every rank, in rank order. A text may have any length and hold any bytes. `purpose`
// identifies the call and contains no NUL byte; if ranks pass different purposes, every rank throws MismatchError that
// names them. A Communicator call.
//
//   for (const std::string& host : gather_texts(context, "host names", my_host)) ...
[[nodiscard]] std::vector<std::string> gather_texts(Context& context, const std::string& purpose,
                                                    const std::string& mine);

}  // namespace kolo
