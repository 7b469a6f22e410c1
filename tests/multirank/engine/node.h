#pragma once
// One rank's engine over messages alone, as between hosts: for tests that put something of their own below it.
#include <functional>
#include <memory>

#include "comm/make.h"
#include "engine/engine_impl.h"
#include "multirank/engine/world.h"
#include "telemetry/counters.h"
#include "transport/make.h"

namespace kolo::test {

class Node {
 public:
  using Change = std::function<void(engine::EngineParts&)>;
  Node(std::unique_ptr<transport::Transport> end, const Config& config, const Change& change = {})
      : config_(config), end_(std::move(end)) {
    engine::EngineParts parts;
    parts.placement.rank = parts.placement.local_rank = end_->rank();
    parts.placement.size = parts.placement.local_size = end_->size();
    parts.config = &config_;
    parts.transport = end_.get();
    parts.control_tag = kControlTag;
    parts.communicators = [this] { return communicator(); };
    parts.calls = &calls_;
    parts.counters = &counters_;
    parts.log = [](LogLevel, std::string_view) {};
    if (change) change(parts);
    engine_ = engine::EngineImpl::make(std::move(parts));
  }
  [[nodiscard]] engine::EngineImpl& engine() { return *engine_; }
  [[nodiscard]] Rank rank() const { return end_->rank(); }

  static constexpr transport::Tag kControlTag = 0;

 private:
  std::unique_ptr<Communicator> communicator() {
    comm::AlgorithmicParts parts;
    parts.transport = end_.get();
    parts.counters = &counters_;
    parts.first_tag = next_tag_;
    parts.tag_count = 1U << 12;
    parts.ring_segment_bytes = 8192;
    next_tag_ += parts.tag_count;
    return comm::make_algorithmic(parts);
  }

  Config config_;
  base::CallLimit calls_;
  telemetry::Counters counters_;
  std::unique_ptr<transport::Transport> end_;
  transport::Tag next_tag_ = 1U << 12;
  std::shared_ptr<engine::EngineImpl> engine_;  // last: it uses the others
};

}  // namespace kolo::test
