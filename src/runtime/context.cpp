// Builds the object graph of one rank, and owns the order in which it is taken down: members of Parts are destroyed
// from the last to the first, so each outlives those that borrow it.
#include "kolo/context.h"

#include <thread>
#include "cluster/make.h"
#include "comm/make.h"

#include "engine/engine_impl.h"
#include "telemetry/counters.h"
#include "telemetry/logger.h"
#include "transport/make.h"

namespace kolo {
namespace {

// Tags of one transport: the control channel's, then a range for each communicator in the order in which they are made.
constexpr transport::Tag kControlTag = 0;
constexpr transport::Tag kTagsPerCommunicator = 1U << 12;

// A way between the ranks, and memory that they share if they are all on one host. Either may be absent in a world of
// one.
struct Wires {
  std::unique_ptr<transport::SharedMemory> memory;
  std::unique_ptr<transport::Transport> transport;
};

}  // namespace

struct Context::Parts {
  Config config;
  telemetry::Logger logger;
  telemetry::Counters counters;
  std::unique_ptr<cluster::Bootstrap> bootstrap;
  Wires user_wires;    // communicator()'s
  Wires engine_wires;  // the engine's own: its threads never meet the user's
  transport::Tag user_tag = kTagsPerCommunicator;
  transport::Tag engine_tag = kTagsPerCommunicator;
  std::unique_ptr<Communicator> communicator;
  std::shared_ptr<engine::EngineImpl> engine;  // shared: Works hold weak references

  [[nodiscard]] std::unique_ptr<Communicator> make_communicator(Wires& wires, transport::Tag& next_tag) {
    if (bootstrap->placement().size == 1) return comm::make_self();
    comm::AlgorithmicParts parts;
    parts.transport = wires.transport.get();
    parts.shared_memory = wires.memory.get();
    parts.counters = &counters;
    parts.first_tag = next_tag;
    parts.tag_count = kTagsPerCommunicator;
    parts.ring_segment_bytes = config.ring_segment_bytes;
    parts.spin_iterations = config.spin_iterations;
    parts.timeout = config.timeout;
    next_tag += kTagsPerCommunicator;
    return comm::make_algorithmic(parts);
  }

  void start() {
    logger = logger.for_rank(bootstrap->placement().rank);
    communicator = make_communicator(user_wires, user_tag);
    engine::EngineParts parts;
    parts.placement = bootstrap->placement();
    parts.config = &config;
    parts.transport = engine_wires.transport.get();
    parts.shared_memory = engine_wires.memory.get();
    parts.control_tag = kControlTag;
    // Over MPI a program that brought its own may be calling it at the same time.
    parts.heartbeat = engine_wires.memory != nullptr;
    parts.communicators = [this] { return make_communicator(engine_wires, engine_tag); };
    parts.counters = &counters;
    parts.log = [this](LogLevel level, std::string_view line) { logger.write(level, line); };
    engine = engine::EngineImpl::make(std::move(parts));
  }
};

namespace {

std::unique_ptr<Context::Parts> make_parts(Config config, std::unique_ptr<cluster::Bootstrap> bootstrap) {
  auto parts = std::make_unique<Context::Parts>();
  parts->logger = telemetry::Logger(config.log_level, config.log_sink);
  parts->config = std::move(config);
  parts->bootstrap = std::move(bootstrap);
  return parts;
}

// Between processes: shared memory where all ranks are on one host, else MPI.
Wires make_process_wires(Context::Parts& parts, const void* mpi_comm) {
  Wires wires;
  const auto& placement = parts.bootstrap->placement();
  if (placement.size == 1) return wires;
  if (placement.local_size == placement.size) {
    wires.memory = transport::make_process_shared_memory(*parts.bootstrap, parts.config.timeout);
    wires.transport = transport::make_shm(*parts.bootstrap, *wires.memory, parts.config.timeout);
  } else {
    wires.transport = transport::make_mpi(mpi_comm, parts.counters);
  }
  return wires;
}

std::unique_ptr<Context> make_over_mpi(const void* mpi_comm, Config config) {
  auto parts = make_parts(std::move(config), cluster::make_mpi_bootstrap(mpi_comm));
  parts->user_wires = make_process_wires(*parts, mpi_comm);
  parts->engine_wires = make_process_wires(*parts, mpi_comm);
  return std::make_unique<Context>(std::move(parts));
}

}  // namespace

std::unique_ptr<Context> Context::create(Config config) {
  if (cluster::started_by_launcher()) return make_over_mpi(nullptr, std::move(config));
  return std::make_unique<Context>(make_parts(std::move(config), cluster::make_single_bootstrap()));
}

std::unique_ptr<Context> Context::create_over(const void* mpi_comm, Config config) {
  return make_over_mpi(mpi_comm, std::move(config));
}

std::vector<std::unique_ptr<Context>> Context::create_local(int ranks, const Config& config) {
  auto bootstraps = cluster::make_inproc_bootstrap(ranks);
  std::vector<std::unique_ptr<Parts>> all;
  for (auto& bootstrap : bootstraps) all.push_back(make_parts(config, std::move(bootstrap)));
  for (auto wires : {&Parts::user_wires, &Parts::engine_wires}) {
    if (ranks == 1) break;
    auto memories = transport::make_inproc_shared_memory(ranks);
    auto transports = transport::make_inproc(ranks);
    for (std::size_t r = 0; r < all.size(); ++r) {
      ((*all[r]).*wires) = Wires{std::move(memories[r]), std::move(transports[r])};
    }
  }
  std::vector<std::unique_ptr<Context>> contexts;
  for (auto& parts : all) contexts.push_back(std::make_unique<Context>(std::move(parts)));
  return contexts;
}

Context::Context(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) { parts_->start(); }

// Threads that wait for a Work hold the engine, which uses what Parts own; all Works have ended when it has stopped.
Context::~Context() {
  parts_->engine->stop();
  while (parts_->engine.use_count() > 1) std::this_thread::sleep_for(std::chrono::microseconds(100));
}

const Placement& Context::placement() const noexcept { return parts_->bootstrap->placement(); }
const Config& Context::config() const noexcept { return parts_->config; }
Communicator& Context::communicator() noexcept { return *parts_->communicator; }
Engine& Context::engine() noexcept { return *parts_->engine; }
CounterSnapshot Context::counters() const { return parts_->counters.snapshot(); }
void Context::log(LogLevel level, std::string_view line) const { parts_->logger.write(level, line); }
void Context::shutdown() { parts_->engine->stop(); }

}  // namespace kolo
