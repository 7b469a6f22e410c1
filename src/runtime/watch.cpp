#include "runtime/watch.h"

#include <algorithm>
#include <utility>

#include "cluster/limits.h"

namespace kolo::runtime {

Watch::Watch(cluster::MonitorWorld world, const Config& config, const telemetry::Logger& logger) {
  cluster::MonitorParts parts;
  parts.silence = config.monitor_timeout;
  parts.log = [logger = logger.for_rank(world.rank)](LogLevel level, std::string_view line) {
    logger.write(level, line);
  };
  parts.wake = [this] { wake(); };
  parts.describe = [this](const std::string& operation) { return describe(operation); };
  parts.world = std::move(world);
  monitor_ = std::make_unique<cluster::Monitor>(std::move(parts), cluster::kSetUpTimeout);
}

void Watch::look_after(transport::Transport* transport) {
  if (transport == nullptr) return;
  transport->set_liveness(&monitor_->liveness());
  const std::lock_guard lock(lock_);
  transports_.push_back(transport);
}

void Watch::wake() noexcept {
  const std::lock_guard lock(lock_);
  for (auto* transport : transports_) transport->wake();
}

void Watch::speak_for(const std::shared_ptr<engine::EngineImpl>& engine) {
  const std::lock_guard lock(lock_);
  engine_ = engine;
}

cluster::Doing Watch::describe(const std::string& operation) {
  std::shared_ptr<engine::EngineImpl> engine;
  {
    const std::lock_guard lock(lock_);
    engine = engine_.lock();
  }
  if (engine == nullptr) return {true, "creating its Context"};
  auto [waits, text] = engine->activity(operation);
  return {waits, std::move(text)};
}

std::uint64_t Watch::ask(const std::vector<Rank>& ranks, const std::string& operation) {
  return monitor_->ask(ranks, operation);
}

std::vector<engine::StallInquiry::Answer> Watch::answers(std::uint64_t question) {
  std::vector<Answer> all;
  for (auto& [rank, doing] : monitor_->answers(question)) all.push_back({rank, host(rank), {doing.waits, doing.text}});
  return all;
}

std::unique_ptr<Watch> make_watch(cluster::Bootstrap& bootstrap, const Config& config,
                                  const telemetry::Logger& logger) {
  if (bootstrap.placement().size == 1 || !config.monitor) return nullptr;
  return std::make_unique<Watch>(cluster::set_up_monitors(bootstrap, config.interface), config, logger);
}

}  // namespace kolo::runtime
