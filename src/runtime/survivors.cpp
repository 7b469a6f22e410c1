// What a Context does after a loss: who is left, and a new Context over those in the same processes.
//
//   old world 0 1 2 3 (2 died)       old ranks  0 1 3
//                                    new ranks  0 1 2      with connections and memory of their own
//
// The survivors agree first (cluster/membership.h), and everybody who is to take part has come here before anything
// collective begins: what comes next cannot wait for somebody who does not come, only for one who dies in between. The
// new world's first conversation goes over the old one's transport, which between the living works as before (over MPI
// as far as MPI does).
#include <algorithm>
#include <numeric>

#include "kolo/context.h"
#include "runtime/context_parts.h"
#include "transport/subset.h"
#include "transport/transport_bootstrap.h"

namespace kolo {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kMargin = std::chrono::seconds(10);
constexpr milliseconds kLongestSetUp = std::chrono::seconds(60);

// A rank whose answer is awaited may itself be silent, and is found so after this time.
milliseconds patience(const Config& config) {
  if (config.monitor_timeout.count() == 0) return config.timeout;
  return std::min(config.timeout, 2 * config.monitor_timeout + kMargin);
}

cluster::Monitor& monitor_of(const Context::Parts& parts) {
  if (parts.watch == nullptr) {
    throw UsageError(
        "survivors are unknown: this Context has no monitor (KOLO_MONITOR=off, or no ranks in other processes). Set "
        "KOLO_MONITOR=on on all ranks");
  }
  return parts.watch->monitor();
}

}  // namespace

std::vector<Rank> Context::survivors() {
  if (size() > 1 && !parts_->bootstrap->of_threads()) {
    return monitor_of(*parts_).survivors(patience(parts_->config), parts_->engine->lost_rank()).members;
  }
  std::vector<Rank> everybody(static_cast<std::size_t>(size()));
  std::iota(everybody.begin(), everybody.end(), 0);
  return everybody;
}

std::unique_ptr<Context> Context::create_over_survivors(Context& old, const Config& config) {
  Parts& parts = *old.parts_;
  parts.require_open("create_over_survivors()");
  auto& monitor = monitor_of(parts);
  const auto agreement = monitor.survivors(patience(old.config()), parts.engine->lost_rank());
  parts.engine->stop();
  const auto limit = std::min(config.timeout, kLongestSetUp);
  monitor.gather(agreement, limit);
  const auto between = transport::make_subset(*parts.user_wires.transport, agreement.members);
  transport::ConversationParts conversation;
  conversation.transport = between.get();
  conversation.tag = runtime::conversation_tag(parts.user_wires, agreement.epoch);
  conversation.timeout = limit;
  conversation.device = old.placement().device;
  conversation.while_waiting = [&] { monitor.require_members(agreement); };
  conversation.keep = [&](std::shared_ptr<void> memory) { parts.user_wires.kept.push_back(std::move(memory)); };
  Config changed = config;
  changed.network = Network::tcp;                                     // MPI is not to be relied on after a death
  for (std::string* file : {&changed.step_log, &changed.timeline}) {  // the old ones are kept
    if (!file->empty()) *file += ".survivors";
  }
  auto context = std::make_unique<Context>(runtime::make_process_parts(
      std::move(changed), transport::make_transport_bootstrap(std::move(conversation)), nullptr));
  old.shutdown();
  return context;
}

std::unique_ptr<Context> Context::create_over_survivors(Context& old) {
  return create_over_survivors(old, old.config());
}

}  // namespace kolo
