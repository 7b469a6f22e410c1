#pragma once
// The monitor of one Context, and what it wakes.
#include <memory>
#include <mutex>
#include <vector>

#include "cluster/bootstrap.h"
#include "cluster/monitor.h"
#include "engine/engine_impl.h"
#include "kolo/config.h"
#include "telemetry/logger.h"
#include "transport/shared_memory.h"
#include "transport/transport.h"

namespace kolo::runtime {

class Watch final : public engine::StallInquiry {
 public:
  Watch(cluster::MonitorWorld world, const Config& config, const telemetry::Logger& logger);
  ~Watch() override { stop(); }
  // Waits on it end with PeerLostError when a rank is lost. May be null; stop() comes before its end.
  void look_after(transport::Transport* transport);
  // Who answers for this rank when others ask.
  void speak_for(const std::shared_ptr<engine::EngineImpl>& engine);
  std::uint64_t ask(const std::vector<Rank>& ranks, const std::string& operation) override;
  [[nodiscard]] std::vector<Answer> answers(std::uint64_t question) override;
  [[nodiscard]] std::string host(Rank rank) override { return monitor_->host_name(rank); }
  [[nodiscard]] cluster::Monitor& monitor() noexcept { return *monitor_; }
  void stop() noexcept { monitor_->stop(); }

 private:
  void wake() noexcept;
  [[nodiscard]] cluster::Doing describe(const std::string& operation);

  std::mutex lock_;
  std::weak_ptr<engine::EngineImpl> engine_;       // guarded by lock_
  std::vector<transport::Transport*> transports_;  // guarded by lock_
  std::unique_ptr<cluster::Monitor> monitor_;
};

// Null in a world of one, and where the configuration wants none. Collective.
[[nodiscard]] std::unique_ptr<Watch> make_watch(cluster::Bootstrap& bootstrap, const Config& config,
                                                const telemetry::Logger& logger);

}  // namespace kolo::runtime
