// What the engine does with a device: the lane, and who looks after what is in flight there.
#include <chrono>
#include <utility>

#include "device/event_clock.h"
#include "device/step_launcher.h"
#include "engine/engine_impl.h"
#include "kernels/images.h"
#include "kolo/error.h"

namespace kolo::engine {
namespace {

using namespace std::chrono_literals;

constexpr auto kLook = 50ms;  // between calls: how long what has failed may go unseen
constexpr auto kGrace = 10s;  // collectives on a device have deadlines of their own, which come first

}  // namespace

void EngineImpl::need_lane(int device) {
  if (lane_ != nullptr && lane_->device() == device) return;
  if (lane_ != nullptr) {
    throw UsageError("gradients are on device " + std::to_string(device) + ", but earlier ones were on device " +
                     std::to_string(lane_->device()) + ". A rank uses one device");
  }
  if (!parts_.make_lane) throw UsageError("gradients are on a device, but this Context has none");
  auto lane = parts_.make_lane(device);
  parts_.recorder->use_device_clock(std::make_unique<device::EventClock>(lane->runtime(), device),
                                    [log = parts_.log](const std::string& line) { log(LogLevel::warn, line); });
  const std::scoped_lock lock(progress_lock_);
  lane_ = std::move(lane);
  published_lane_.store(lane_.get(), std::memory_order_release);
  const bool has_heartbeat = coordinator_ != nullptr && parts_.heartbeat;
  if (size() > 1 && !has_heartbeat)
    lane_watch_ = std::make_unique<Heartbeat>(kLook, [this] { watch_lane_between_calls(); });
}

void EngineImpl::watch_lane() {
  if (!lane_ || held_) return;
  negotiation_.has_ended() && !completing() ? lane_->settle() : lane_->watch();
}

// For where the coordinator has no heartbeat, or there is none: a device waits for a lost peer for ever, and the
// program perhaps for the device. Of the transport it asks no more than who lives, and the rest is for the program's
// next call: MPI may be the program's at this moment.
void EngineImpl::watch_lane_between_calls() noexcept {
  const std::unique_lock lock(progress_lock_, std::try_to_lock);
  if (!lock.owns_lock() || !lane_->in_flight()) return;
  if (held_ || lane_failure_ || (negotiation_.has_ended() && !completing())) return;  // it ends already
  lane_->adopt_thread();
  watching_lane_.store(std::this_thread::get_id());
  try {
    parts_.transport->check_peers();
    lane_->watch();
  } catch (...) {
    lane_failure_ = std::current_exception();
    lane_->give_up();
  }
  watching_lane_.store({});
}

void EngineImpl::wait_for_devices() {
  if (published_lane_.load(std::memory_order_acquire) == nullptr) return;
  const auto ended = [this] {
    const std::scoped_lock lock(progress_lock_);
    return !lane_->in_flight() && !lane_failure_ && !held_;
  };
  const bool in_time = drive_until(ended, timeout() + kGrace);
  if (has_failed()) std::rethrow_exception(current_fatal());
  if (in_time) return;
  throw TimeoutError({}, "rank " + std::to_string(rank()) + ": the device did not complete its collectives within " +
                             std::to_string(std::chrono::milliseconds(timeout() + kGrace).count()) + " ms");
}

std::unique_ptr<StepLauncher> EngineImpl::make_step_launcher() {
  const std::scoped_lock lock(progress_lock_);
  if (is_stopped()) throw UsageError("make_step_launcher() was called after Context::shutdown()");
  if (lane_ == nullptr) return nullptr;
  return std::make_unique<device::DeviceStepLauncher>(
      *lane_, lifetime(), [this](std::shared_ptr<void> memory, Stream user) { retire(std::move(memory), user); });
}

bool EngineImpl::has_kernels(int device) const noexcept {
  device::Lane* const lane = published_lane_.load(std::memory_order_acquire);
  return lane != nullptr && lane->device() == device && lane->kernels().exists();
}

void EngineImpl::normalize_images(const ImageBatch& batch, Stream stream) {
  kernels::normalize_images(published_lane_.load(std::memory_order_acquire)->kernels(), batch, stream);
}

void EngineImpl::retire(std::shared_ptr<void> memory, Stream user) noexcept {
  const std::scoped_lock lock(progress_lock_);
  try {
    lane_->retire(memory, user.on_host() ? lane_->stream() : user);
  } catch (const std::exception&) {  // a device that answers no more
    buried_.push_back(std::move(memory));
  }
}

}  // namespace kolo::engine
