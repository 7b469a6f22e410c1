#pragma once
// What a Context is made of. Members are destroyed from the last to the first, so each outlives those that borrow it.
#include <unistd.h>

#include <memory>
#include <optional>

#include "cluster/bootstrap.h"
#include "engine/engine_impl.h"
#include "kolo/context.h"
#include "kolo/spi/communicator.h"
#include "runtime/devices.h"
#include "runtime/recording.h"
#include "runtime/watch.h"
#include "runtime/wires.h"
#include "telemetry/counters.h"
#include "telemetry/logger.h"
#include "telemetry/recorder.h"

namespace kolo {

struct Context::Parts {
  Config config;
  telemetry::Logger logger;
  telemetry::Counters counters;
  std::shared_ptr<telemetry::Recorder> recorder = std::make_shared<telemetry::Recorder>(counters);
  std::optional<runtime::ClockOffset> clock_offset;  // empty: not measured
  std::unique_ptr<cluster::Bootstrap> bootstrap;
  std::unique_ptr<runtime::Watch> watch;  // null where nobody can be lost
  runtime::Wires user_wires;              // communicator()'s
  runtime::Wires engine_wires;            // the engine's own: its threads never meet the user's
  runtime::FindDevices find_devices = runtime::load_devices;
  std::unique_ptr<Communicator> communicator;
  runtime::Wires lone_wires;  // of a world of this rank, as the next one
  Placement alone;
  std::shared_ptr<engine::EngineImpl> lone_engine;  // there, for gradients with Config::sync false; otherwise null
  std::shared_ptr<engine::EngineImpl> engine;       // shared: Works hold weak references
  bool shut_down = false;                           // what needs the other ranks throws UsageError
  bool ended = false;                               // and MPI's end knows how
  int group = 0;                                    // by which MPI's end knows it
  const pid_t process = getpid();
  // In a forked child, which has none of the threads: the parent's group is not its own.
  [[nodiscard]] bool inherited() const noexcept { return process != getpid(); }

  // Where the making of a Context fails: the monitor wakes what the wires are.
  ~Parts() {
    if (watch) watch->stop();
  }
  void start();
  // Opens the files that `config` names. Collective, as allgather is.
  void start_recording(const runtime::Allgather& allgather);
  void start_recording_alone();  // unless the ranks have done it together
  void start_timeline(const std::string& file, const runtime::Allgather& allgather);
  [[nodiscard]] engine::EngineParts engine_parts(const Placement& placement, runtime::Wires& wires,
                                                 std::shared_ptr<engine::EngineImpl>& made);
  void start_lone_engine();
  void measure_clock(const runtime::Allgather& allgather);
  // Throws UsageError after shutdown(). `what` names the call.
  void require_open(std::string_view what) const;
};

namespace runtime {

// The first half of a Context over processes; start() is the second. `mpi_comm` has the ranks of `bootstrap`.
// Collective.
[[nodiscard]] std::unique_ptr<Context::Parts> make_process_parts(Config config,
                                                                 std::unique_ptr<cluster::Bootstrap> bootstrap,
                                                                 const void* mpi_comm);

// Context::create_local(), with the devices that `find_devices` finds.
[[nodiscard]] std::vector<std::unique_ptr<Context>> make_local(const std::vector<int>& hosts, const Config& config,
                                                               const FindDevices& find_devices);

}  // namespace runtime
}  // namespace kolo
