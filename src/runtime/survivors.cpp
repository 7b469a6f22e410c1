// What a Context does after a loss: who is left, and a new Context over those in the same processes.
//
//   old world 0 1 2 3 (2 died)       old ranks  0 1 3
//                                    new ranks  0 1 2      in a MPI communicator, memory and tags of their own
//
// The survivors agree first (cluster/membership.h), and everybody who is to take part has come here before anything
// collective begins: what comes next cannot wait for somebody who does not come, only for one who dies in between.
#include <algorithm>
#include <numeric>

#include "cluster/make.h"
#include "kolo/context.h"
#include "runtime/context_parts.h"

namespace kolo {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kMargin = std::chrono::seconds(10);
constexpr milliseconds kLongestSetUp = std::chrono::seconds(60);
constexpr std::uint64_t kGroupTags = 1U << 14;  // every MPI has as many

// A rank whose answer is awaited may itself be silent, and is found so after this time.
milliseconds patience(const Config& config) {
  if (config.monitor_timeout.count() == 0) return config.timeout;
  return std::min(config.timeout, 2 * config.monitor_timeout + kMargin);
}

cluster::Monitor& monitor_of(const Context::Parts& parts) {
  if (parts.watch == nullptr) {
    throw UsageError(
        "this Context has no monitor (KOLO_MONITOR=off, or no ranks in other processes): nothing is known of who is "
        "left");
  }
  return parts.watch->monitor();
}

}  // namespace

std::vector<Rank> Context::survivors() {
  const bool alone = size() == 1 || parts_->bootstrap->mpi_comm() == nullptr;
  if (!alone) return monitor_of(*parts_).survivors(patience(parts_->config)).members;
  std::vector<Rank> everybody(static_cast<std::size_t>(size()));
  std::iota(everybody.begin(), everybody.end(), 0);
  return everybody;
}

std::unique_ptr<Context> Context::create_over_survivors(Context& old, const Config& config) {
  auto& monitor = monitor_of(*old.parts_);
  const auto agreement = monitor.survivors(patience(old.config()));
  old.parts_->engine->stop();
  const auto limit = std::min(config.timeout, kLongestSetUp);
  monitor.gather(agreement, limit);
  const auto still_whole = [&] { monitor.require_members(agreement); };
  auto bootstrap = cluster::make_mpi_subworld(
      {*old.parts_->bootstrap, agreement.members, static_cast<int>(agreement.epoch % kGroupTags), limit, still_whole});
  const void* group = bootstrap->mpi_comm();
  auto context = std::make_unique<Context>(runtime::make_process_parts(config, std::move(bootstrap), group));
  context->parts_->bootstrap->set_while_waiting({});
  old.shutdown();
  return context;
}

std::unique_ptr<Context> Context::create_over_survivors(Context& old) {
  return create_over_survivors(old, old.config());
}

}  // namespace kolo
