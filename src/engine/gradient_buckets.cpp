// The part of GradientRounds that makes a frozen plan's buckets, and their memory.
#include <algorithm>
#include <utility>

#include "engine/device_bucket.h"
#include "engine/gradient_rounds.h"
#include "engine/host_bucket.h"
#include "engine/message_check.h"
#include "engine/share_bucket.h"
#include "engine/solo_bucket.h"
#include "engine/staged_bucket.h"
#include "kolo/error.h"
#include "kolo/spi/communicator.h"

namespace kolo::engine {

// Whether a bucket has gradients that may be reduced where they lie. Over a network those go round the ring, and are
// packed where something else is chosen for the bucket's size.
bool GradientRounds::may_scatter(const PlannedBucket& bucket) const {
  const std::size_t from = settings_.options.in_place_from;
  const auto is_large = [from](const PlannedTensor& tensor) { return tensor.bytes >= from; };
  if (settings_.algorithm != Algorithm::automatic) return false;
  if (from == 0 || !host_.allocator().supports_segmented() || std::ranges::none_of(bucket.tensors, is_large))
    return false;
  std::uint64_t word = 0;
  AllreduceOptions options;
  options.count = bucket.bytes / size_of(bucket.dtype);
  options.dtype = bucket.dtype;
  options.flags.words = {&word, 1};
  const Algorithm chosen = host_.allocator().explain(options).algorithm;
  return chosen == Algorithm::direct || chosen == Algorithm::ring;
}

GradientRounds::HostMemory GradientRounds::allocate(const Plan& plan, std::size_t arena_bytes) {
  std::vector<std::size_t> sizes;
  for (const auto& bucket : plan.buckets) {
    if (!bucket.on_device) sizes.push_back(HostBucket::memory_for(bucket, arena_bytes > 0));
  }
  if (arena_bytes > 0) sizes.push_back(arena_bytes);
  HostMemory memory{host_.allocator().allocate(sizes, host_.timeout()), nullptr};
  if (arena_bytes == 0) return memory;
  memory.arena = std::move(memory.buckets.back());
  memory.buckets.pop_back();
  return memory;
}

// Where gradients cannot be made in shared memory because it is short on some rank, of which all hear, they are packed.
GradientRounds::HostMemory GradientRounds::allocate_with_arena(const Plan& plan) {
  try {
    return allocate(plan, GradientArena::bytes_for(table_, settings_.options.in_place_from));
  } catch (const GroupFailure&) {
    throw;
  } catch (const DamagedMessage&) {
    throw;
  } catch (const BackendError& error) {
    if (host_.group_has_ended()) throw;
    host_.warn(std::string("gradients: shared=off, buckets are packed: ") + error.what());
  }
  return allocate(plan, 0);
}

std::unique_ptr<GradientRounds::Frozen> GradientRounds::make_frozen(const Item& item) {
  auto next = std::make_unique<Frozen>();
  next->plan = build_plan(table_, item.order, settings_.caps);
  next->solo = host_.allocator().size() == 1 && SoloBucket::suits(settings_.options);
  next->places.resize(table_.size());
  for (std::size_t b = 0; b < next->plan.buckets.size(); ++b) {
    const auto& tensors = next->plan.buckets[b].tensors;
    for (std::size_t s = 0; s < tensors.size(); ++s) {
      next->places[tensors[s].index] = {static_cast<std::uint32_t>(b), static_cast<std::uint32_t>(s)};
    }
  }
  next->solo ? make_solo_buckets(*next) : make_buckets(*next);
  return next;
}

void GradientRounds::make_solo_buckets(Frozen& next) {
  for (const PlannedBucket& plan : next.plan.buckets) {
    next.buckets.push_back(std::make_unique<SoloBucket>(plan, plan.on_device ? host_.lane() : nullptr));
  }
}

void GradientRounds::make_buckets(Frozen& next) {
  std::vector<bool> scattered;
  for (const PlannedBucket& bucket : next.plan.buckets) scattered.push_back(may_scatter(bucket));
  HostMemory memory =
      std::ranges::find(scattered, true) != scattered.end() ? allocate_with_arena(next.plan) : allocate(next.plan, 0);
  auto next_memory = memory.buckets.begin();
  if (memory.arena) {
    next.arena = std::make_shared<GradientArena>(table_, settings_.options.in_place_from, std::move(memory.arena));
  }
  for (std::size_t b = 0; b < next.plan.buckets.size(); ++b) {
    const PlannedBucket& plan = next.plan.buckets[b];
    if (plan.on_device) {
      auto bucket = make_device_bucket(plan);
      bucket->record(host_.step_recorder(), telemetry::bucket_track(settings_.id, b));
      next.buckets.push_back(std::move(bucket));
      continue;
    }
    RegisteredBuffer* const home = next.arena && scattered[b] ? &next.arena->memory() : nullptr;
    next.buckets.push_back(make_host_bucket(plan, std::move(*next_memory++), home));
  }
}

std::unique_ptr<Bucket> GradientRounds::make_host_bucket(const PlannedBucket& plan,
                                                         std::unique_ptr<RegisteredBuffer> memory,
                                                         RegisteredBuffer* home) {
  return std::make_unique<HostBucket>(
      HostBucketParts{&plan, {host_.communicators()(), std::move(memory), &host_.counters()}, home});
}

std::unique_ptr<BucketOnDevice> GradientRounds::make_device_bucket(const PlannedBucket& plan) {
  device::Lane& lane = *host_.lane();
  const bool staged = lane.route() == device::Route::hosts;
  auto communicator = staged ? host_.communicators()() : make_prepared(host_.communicators(), host_.timeout());
  std::unique_ptr<RegisteredBuffer> memory;  // of the host; for each bucket its own pages
  const std::size_t bytes = HostReduction::memory_for(plan);
  if (staged) memory = std::move(host_.allocator().allocate({&bytes, 1}, host_.timeout()).front());
  try {
    if (staged) {
      HostReductionParts reduction{std::move(communicator), std::move(memory), &host_.counters()};
      return std::make_unique<StagedBucket>(StagedBucketParts{&plan, std::move(reduction), &lane, host_.timeout()});
    }
    if (lane.route() == device::Route::shares_by_hosts) {
      return std::make_unique<ShareBucket>(
          ShareBucketParts{&plan, std::move(communicator), &lane, &host_.counters(), host_.timeout()});
    }
    return std::make_unique<DeviceBucket>(
        DeviceBucketParts{&plan, std::move(communicator), &lane, &host_.counters(), host_.timeout()});
  } catch (const BackendError& error) {
    throw GroupFailure(error.what());
  }
}

}  // namespace kolo::engine
