// Builds the object graph of one rank.
#include "kolo/context.h"
#include "kolo/spi/communicator.h"
#include "kolo/spi/engine.h"

#include <algorithm>
#include <utility>

#include "cluster/descriptors.h"
#include "cluster/make.h"
#include "cluster/mpi_exit.h"
#include "kolo/error.h"
#include "runtime/config_table.h"
#include "runtime/context_parts.h"

namespace kolo {
namespace {

// A monitor says within milliseconds who has ended; a busy machine, or one that tears down a GPU, takes longer.
constexpr std::chrono::milliseconds kDeathNotice{2000};

std::unique_ptr<Context::Parts> make_parts(Config config, std::unique_ptr<cluster::Bootstrap> bootstrap) {
  runtime::check(config);
  auto parts = std::make_unique<Context::Parts>();
  parts->logger = telemetry::Logger(config.log_level, config.log_sink);
  parts->config = std::move(config);
  parts->bootstrap = std::move(bootstrap);
  return parts;
}

// Of a rank's own: seven for each on its host, for each of some others four, and after a loss one or two for each rank
// of the world, where this one is who leads the agreement on the survivors (cluster/membership.h).
std::size_t descriptors_for(const Placement& placement) {
  return 256 + 8 * static_cast<std::size_t>(placement.local_size) + 2 * static_cast<std::size_t>(placement.size);
}

std::unique_ptr<Context> make_over_mpi(const void* mpi_comm, Config config) {
  cluster::note_failed_start(true);  // until it is there
  runtime::check(config);
  cluster::limit_mpi_finalize(config.timeout);
  const telemetry::Logger logger(config.log_level, config.log_sink);
  const cluster::StallWarning stall{config.stall_warning, [&logger](const std::string& text) { logger.warn(text); }};
  try {
    auto context = std::make_unique<Context>(
        runtime::make_process_parts(std::move(config), cluster::make_mpi_bootstrap(mpi_comm, stall), mpi_comm));
    cluster::note_failed_start(false);
    return context;
  } catch (const TimeoutError&) {
    cluster::note_failed_group();
    throw;
  }
}

}  // namespace

std::unique_ptr<Context::Parts> runtime::make_process_parts(Config config,
                                                            std::unique_ptr<cluster::Bootstrap> bootstrap,
                                                            const void* mpi_comm) {
  auto parts = make_parts(std::move(config), std::move(bootstrap));
  cluster::make_room_for_descriptors(descriptors_for(parts->bootstrap->placement()));
  agree_on_settings(*parts->bootstrap, parts->config);
  parts->watch = make_watch(*parts->bootstrap, parts->config, parts->logger);
  if (parts->watch) {
    parts->bootstrap->set_while_waiting([monitor = &parts->watch->monitor()] { monitor->liveness().require_whole(); });
  }
  for (auto* wires : {&parts->user_wires, &parts->engine_wires}) {
    *wires = make_process_wires(*parts->bootstrap, mpi_comm, parts->counters, parts->config);
  }
  const auto allgather = [&](const std::string& mine) { return parts->bootstrap->allgather(mine); };
  if (!parts->config.step_log.empty() || !parts->config.timeline.empty()) parts->start_recording(allgather);
  parts->bootstrap->set_while_waiting({});  // it outlives the monitor
  return parts;
}

std::unique_ptr<Context> Context::create(Config config) {
  if (cluster::started_by_launcher()) return make_over_mpi(nullptr, std::move(config));
  return std::make_unique<Context>(make_parts(std::move(config), cluster::make_single_bootstrap()));
}

std::unique_ptr<Context> Context::create_over(const void* mpi_comm, Config config) {
  return make_over_mpi(mpi_comm, std::move(config));
}

std::vector<std::unique_ptr<Context>> Context::create_local_ranks(int ranks, const Config& config) {
  return create_local(std::vector<int>(static_cast<std::size_t>(std::max(ranks, 0)), 0), config);
}

std::vector<std::unique_ptr<Context>> Context::create_local(const std::vector<int>& hosts, const Config& config) {
  return runtime::make_local(hosts, config, runtime::load_devices);
}

std::vector<std::unique_ptr<Context>> runtime::make_local(const std::vector<int>& hosts, const Config& config,
                                                          const FindDevices& find_devices) {
  using Parts = Context::Parts;
  auto bootstraps = cluster::make_inproc_bootstrap(hosts);
  std::vector<std::unique_ptr<Parts>> all;
  runtime::Hosts ranks;  // of each host
  for (auto& bootstrap : bootstraps) {
    const Placement& placement = bootstrap->placement();
    ranks.resize(static_cast<std::size_t>(placement.cross_size));
    ranks[static_cast<std::size_t>(placement.cross_rank)].push_back(placement.rank);
    all.push_back(make_parts(config, std::move(bootstrap)));
    all.back()->find_devices = find_devices;
  }
  for (auto wires : {&Parts::user_wires, &Parts::engine_wires}) {
    auto made = runtime::make_thread_wires(ranks);
    for (std::size_t r = 0; r < all.size(); ++r) {
      made[r].local_cores = all[r]->bootstrap->placement().local_cores;
      (*all[r]).*wires = std::move(made[r]);
    }
  }
  std::vector<std::unique_ptr<Context>> contexts;
  for (auto& parts : all) contexts.push_back(std::make_unique<Context>(std::move(parts)));
  return contexts;
}

void Context::Parts::start() {
  logger = logger.for_rank(bootstrap->placement().rank);
  if (watch) {
    watch->look_after(user_wires.transport.get());
    watch->look_after(engine_wires.transport.get());
  }
  user_wires.calls = std::make_shared<base::CallLimit>();
  if (user_wires.memory) {  // the engine sees to its own
    user_wires.memory->set_while_waiting([this] {
      user_wires.transport->check_peers();
      user_wires.calls->check_newest();
    });
  }
  communicator = runtime::make_communicator(user_wires, config, counters, runtime::Use::many_at_once);
  communicator->set_default_timeout(config.timeout);
  if (config.stall_warning.count() > 0) {
    communicator->warn_of_stalls(config.stall_warning,
                                 [this](const std::string& text) { logger.write(LogLevel::warn, text); });
  }
  if (!config.sync && bootstrap->placement().size > 1) start_lone_engine();
  engine::EngineParts parts = engine_parts(bootstrap->placement(), engine_wires, engine);
  parts.control_tag = runtime::take_tags(engine_wires, 1);
  parts.calls = user_wires.calls.get();
  parts.inquiry = watch.get();
  parts.for_gradients = lone_engine.get();
  if (!bootstrap->of_threads()) parts.death_notice = std::min(kDeathNotice, config.timeout / 2);
  engine = engine::EngineImpl::make(std::move(parts));
  if (watch) watch->speak_for(engine);
}

// What the engine of `placement` over `wires` is made of; `made` will hold it. All three are borrowed.
engine::EngineParts Context::Parts::engine_parts(const Placement& placement, runtime::Wires& wires,
                                                 std::shared_ptr<engine::EngineImpl>& made) {
  using runtime::Use;
  engine::EngineParts parts;
  parts.placement = placement;
  parts.config = &config;
  parts.transport = wires.transport.get();
  parts.shared_memory = wires.memory.get();
  parts.over_network = wires.way != runtime::Way::memory;
  parts.transport_wakes = wires.way != runtime::Way::mpi;
  // Over MPI a program that brought its own may be calling it at the same time.
  parts.heartbeat = wires.transport != nullptr && parts.transport_wakes;
  parts.named = [&] { return runtime::make_communicator(wires, config, counters, Use::many_at_once); };
  parts.communicators = [&] { return runtime::make_communicator(wires, config, counters, Use::one_by_one); };
  parts.counters = &counters;
  parts.recorder = recorder;
  parts.log = [this](LogLevel level, std::string_view line) { logger.write(level, line); };
  parts.make_lane = [&](int device) {
    runtime::LaneWorld world{&placement, &config, made.get(), &logger, &wires};
    world.between_hosts = [&] { return runtime::make_share_communicator(wires, config, counters); };
    world.check_peers = [&] { made->check_others(); };
    return runtime::make_lane(find_devices, device, world);
  };
  return parts;
}

void Context::Parts::start_lone_engine() {
  alone = bootstrap->placement();
  alone.rank = alone.local_rank = alone.cross_rank = 0;
  alone.size = alone.local_size = alone.cross_size = 1;
  if (bootstrap->placement().rank == 0) {
    logger.warn("sync=off: gradients are not reduced, each rank trains its own model. Only the times mean something");
  }
  lone_wires.calls = std::make_shared<base::CallLimit>();  // no program calls collectives of this world directly
  engine::EngineParts parts = engine_parts(alone, lone_wires, lone_engine);
  parts.calls = lone_wires.calls.get();
  lone_engine = engine::EngineImpl::make(std::move(parts));
}

Context::Context(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {
  parts_->start();
  parts_->start_recording_alone();
  if (!parts_->bootstrap->of_threads()) parts_->group = cluster::note_open_group([this] { shutdown(); });
}

// Threads that wait for a Work are in the engine, which uses what Parts own. All Works have ended when it has stopped,
// so they come out; what one that does not uses is kept for ever.
Context::~Context() {
  if (parts_->inherited()) {
    static_cast<void>(parts_.release());
    return;
  }
  shutdown();
  const bool free = parts_->lone_engine == nullptr || parts_->lone_engine->end_lease();
  if (!parts_->engine->end_lease() || !free) static_cast<void>(parts_.release());
}

const Placement& Context::placement() const noexcept { return parts_->bootstrap->placement(); }
const Config& Context::config() const noexcept { return parts_->config; }
void Context::Parts::require_open(std::string_view what) const {
  if (!shut_down) return;
  throw UsageError("rank " + std::to_string(bootstrap->placement().rank) + ": " + std::string(what) +
                   " was called after Context::shutdown()");
}

Communicator& Context::communicator() {
  parts_->require_open("Context::communicator()");
  return *parts_->communicator;
}
Engine& Context::engine() noexcept { return *parts_->engine; }
Work Context::submit(Request request) { return parts_->engine->submit(std::move(request)); }
void Context::barrier() { communicator().barrier(); }
void Context::wait_for_devices() {
  parts_->engine->wait_for_devices();
  if (parts_->lone_engine) parts_->lone_engine->wait_for_devices();
}
void Context::report_failure(const std::exception& error) noexcept {
  if (parts_->lone_engine) parts_->lone_engine->fail_round(error);
  parts_->engine->fail_round(error);
  parts_->recorder->abandon_step();
}
std::exception_ptr Context::failure() const noexcept {
  try {
    if (size() > 1) parts_->engine->check_others();
  } catch (...) {
    return std::current_exception();
  }
  if (auto error = parts_->communicator->failure()) return error;
  return parts_->shut_down ? std::make_exception_ptr(UsageError("the Context of this rank has been shut down"))
                           : nullptr;
}
CounterSnapshot Context::counters() const { return parts_->counters.snapshot(); }
void Context::log(LogLevel level, std::string_view line) const { parts_->logger.write(level, line); }

void Context::shutdown() {
  if (parts_->inherited()) return;
  parts_->shut_down = true;
  parts_->communicator->close();
  if (parts_->lone_engine) parts_->lone_engine->stop();
  parts_->engine->stop();
  parts_->recorder->stop();
  if (parts_->watch) parts_->watch->stop();
  if (parts_->bootstrap->of_threads() || std::exchange(parts_->ended, true)) return;
  cluster::note_closed_group(parts_->group);
  if (parts_->engine->has_failed()) {
    cluster::note_failed_group();
  } else {
    cluster::note_orderly_end(placement().size);
  }
}

}  // namespace kolo
