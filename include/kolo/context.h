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
// Some errors make a Context unusable: later collectives then throw. docs/errors.md says which.
class Context {
 public:
  // Over MPI_COMM_WORLD; initialises MPI if needed. Without a launcher, the Context has one rank. Collective. Throws
  // UsageError if MPI reports fewer ranks than the launcher started or a Config field is out of range, MismatchError if
  // ranks have different values of a setting that must be equal, TimeoutError if a rank is missing, BackendError.
  static std::unique_ptr<Context> create(Config config = Config::from_environment());
  // Programs call kolo::create_context() of kolo/mpi.h instead. `mpi_comm` points to an MPI_Comm, which is duplicated.
  static std::unique_ptr<Context> create_over(const void* mpi_comm, Config config = Config::from_environment());
  // Creates `ranks` ranks in this process, one Context each; each rank uses its Context from its own threads. A braced
  // list selects the overload with hosts: create_local({0, 0, 1}).
  template <std::convertible_to<int> Count>
  static std::vector<std::unique_ptr<Context>> create_local(Count ranks, const Config& config = {}) {
    return create_local_ranks(static_cast<int>(ranks), config);
  }
  // For tests: hosts[r] is the emulated host of rank r. Ranks of one host share memory; other ranks exchange messages.
  static std::vector<std::unique_ptr<Context>> create_local(const std::vector<int>& hosts, const Config& config = {});
  // A Context over old.survivors(), with ranks renumbered from 0 in their old order. Collective over the survivors. A
  // successful call shuts `old` down; it may then be destroyed. Throws UsageError if `old` was shut down before.
  // If it throws PeerLostError, `old` stays open: call again if survivors() has become shorter. If it throws
  // TimeoutError, a survivor is missing: do not call again (docs/faults.md).
  static std::unique_ptr<Context> create_over_survivors(Context& old, const Config& config);
  static std::unique_ptr<Context> create_over_survivors(Context& old);  // with the old settings
  ~Context();                                                           // calls shutdown(); never throws
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  [[nodiscard]] const Placement& placement() const noexcept;
  [[nodiscard]] Rank rank() const noexcept { return placement().rank; }
  [[nodiscard]] int size() const noexcept { return placement().size; }
  [[nodiscard]] const Config& config() const noexcept;

  // Starts an asynchronous collective; see Request. Waits for other ranks only while 8 unnamed requests are in flight.
  // Throws UsageError for a reserved or pending name, an unnamed request from a second thread, and after shutdown(). If
  // one rank cannot execute a request, each Work on every rank throws the same UsageError, which names that rank.
  Work submit(Request request);
  // Returns when all ranks have called it; throws TimeoutError after Config::timeout. All ranks make Communicator calls
  // (this one, and those of communicator()) in the same order, one thread of a rank at a time.
  void barrier();

  // Runs training code and returns its result. Not collective. If `body` throws, the exception is rethrown here and
  // reaches the other ranks as PeerFailedError. Training can then continue with the next step, unless another rank
  // waits in a Communicator call that this rank did not reach: then the Contexts of all ranks are unusable.
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

  // Blocks until the GPU collectives of this rank are complete, and throws the error of a failed one. step() may return
  // before they are: call this before weights are saved. Returns at once on CPUs. Takes at most about Config::timeout.
  void wait_for_devices();

  // The error that made this Context unusable; null while the Context is usable, even if a step or a request failed.
  // Do not call it during a Communicator call of this rank. Not collective.
  [[nodiscard]] std::exception_ptr failure() const noexcept;
  // The ranks that remain after a loss: their numbers in this Context, ascending; all ranks if none is lost. Not
  // collective: the monitor threads agree on the list, within min(2 * Config::monitor_timeout + 10 s, Config::timeout).
  // Throws PeerLostError if this rank is excluded or in a minority: the process must then end. Throws TimeoutError if
  // the monitor of a rank does not answer, UsageError without a monitor (KOLO_MONITOR=off).
  [[nodiscard]] std::vector<Rank> survivors();

  // Completes requests that are already executing, then waits for GPUs; each phase takes at most
  // min(Config::timeout, 30 s). Other pending requests fail with UsageError. Then tells the other ranks, within 2 s:
  // their later collectives throw an error that names this rank. Later collectives of this rank throw
  // UsageError; placement(), config(), counters(), log(), failure() and survivors() (the last agreed list) still work.
  // Not collective. Idempotent.
  void shutdown();

  // Starts the timeline: from now on this rank writes a trace of its training steps, for Perfetto, to
  // `<file>.rank<R>.json`. Config::timeline starts it in create(). A Communicator call, because ranks measure
  // the offsets of their clocks. Throws UsageError if a timeline is running or the file cannot be created.
  void start_timeline(const std::string& file);
  // Completes the file; so does shutdown(). Not collective. No effect without a timeline.
  void stop_timeline();

  [[nodiscard]] CounterSnapshot counters() const;
  // Writes a line to Config::log_sink.
  void log(LogLevel level, std::string_view line) const;

  // The Communicator of this Context (kolo/spi/communicator.h). After shutdown() its calls throw UsageError.
  [[nodiscard]] Communicator& communicator();
  // For bindings of other frameworks (kolo/spi/engine.h).
  [[nodiscard]] Engine& engine() noexcept;

  struct Parts;
  explicit Context(std::unique_ptr<Parts> parts);

 private:
  static std::vector<std::unique_ptr<Context>> create_local_ranks(int ranks, const Config& config);
  void report_failure(const std::exception& error) noexcept;
  friend class TimelineRange;

  std::unique_ptr<Parts> parts_;
};

// A span of the calling thread in the timeline, from constructor to destructor:
//
//   const kolo::TimelineRange range(context, "data wait");
//
// `name` must outlive the timeline, as a literal does. Without a timeline, a range costs one atomic load.
class TimelineRange {
 public:
  TimelineRange(const Context& context, const char* name) noexcept;
  ~TimelineRange();
  TimelineRange(const TimelineRange&) = delete;
  TimelineRange& operator=(const TimelineRange&) = delete;

 private:
  const Context& context_;
  const char* name_;
  std::int64_t start_ns_;
};

// Returns the text `mine` of every rank, in rank order. A text may have any length and hold any bytes. `purpose`
// identifies the call and contains no NUL byte; if ranks pass different purposes, every rank throws MismatchError that
// names them. A Communicator call.
//
//   for (const std::string& host : gather_texts(context, "host names", my_host)) ...
[[nodiscard]] std::vector<std::string> gather_texts(Context& context, const std::string& purpose,
                                                    const std::string& mine);

}  // namespace kolo
