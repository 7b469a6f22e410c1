#include "device/ring_crossing.h"

#include <algorithm>

#include "kernels/accumulate.h"
#include "kolo/error.h"

namespace kolo::device {
namespace {

constexpr std::chrono::milliseconds kSegmentTime{2};  // at 2 Gbit/s

}  // namespace

// Rooms on the device, and its adding up, in a stream beside the lane.
class RingCrossing::Place final : public collectives::RingPlace {
 public:
  Place(Lane& lane, std::size_t room_bytes)
      : lane_(lane), room_bytes_(room_bytes), rooms_(lane.runtime(), lane.device(), kSlots * room_bytes) {
    for (std::size_t slot = 0; slot < kSlots; ++slot) combined_.emplace_back(lane.runtime(), lane.device());
  }

  [[nodiscard]] std::span<std::byte> room(std::size_t slot, std::size_t bytes) override {
    return {rooms_.data() + slot * room_bytes_, bytes};
  }
  // Gradients are scaled when they are packed.
  void prescale(const collectives::Reduction& /*reduction*/, std::byte* /*own*/, std::size_t /*count*/) override {}
  void combine(std::size_t slot, const collectives::Reduction& reduction, std::byte* own, std::size_t count,
               const collectives::Reduction::Step& /*step*/) override {
    const Stream sums = lane_.copies().in.view();
    const std::byte* const come = room(slot, count * size_of(reduction.dtype)).data();
    kernels::accumulate(lane_.kernels(), {own, come, count, reduction.dtype}, sums);
    combined_[slot].record(sums);
  }
  [[nodiscard]] bool combined(std::size_t slot) override { return combined_[slot].passed(); }

 private:
  Lane& lane_;
  std::size_t room_bytes_;
  cuda::DeviceBuffer rooms_;
  std::vector<cuda::Event> combined_;
};

RingCrossing::RingCrossing(Lane& lane, std::span<std::byte> share, std::shared_ptr<void> owner, DType dtype,
                           const ShareWire& wire, telemetry::Counters& counters)
    : lane_(lane),
      share_(share),
      owner_(std::move(owner)),
      dtype_(dtype),
      wire_(wire),
      counters_(counters),
      gathered_(lane.runtime(), lane.device()),
      added_(lane.runtime(), lane.device()) {
  peers_.transport = wire.ranks;
  const auto blocks = plan().blocks;
  const std::size_t longest = *std::ranges::max_element(blocks) * size_of(dtype);
  place_ = std::make_shared<Place>(lane, std::min(longest, kSegmentBytes));
}

RingCrossing::~RingCrossing() { abandon(); }

// Messages may still be on their way, from this memory and into it.
void RingCrossing::abandon() noexcept {
  if (!is_under_way()) return;
  try {
    const cuda::DeviceGuard guard(*lane_.runtime(), lane_.device());
    ring_.reset();
  } catch (const Error&) {  // of the guard: a device that answers no more
    ring_.reset();
  }
  wire_.whole->keep(place_);
  wire_.whole->keep(owner_);
}

collectives::Ring::Plan RingCrossing::plan() const {
  collectives::Ring::Plan plan;
  plan.data = share_.data();
  const std::size_t count = share_.size() / size_of(dtype_);
  const int hosts = wire_.ranks->size();
  for (int host = 0; host < hosts; ++host) {
    plan.blocks.push_back(collectives::part_of(count, hosts, host, collectives::line_grain(dtype_)).size());
  }
  plan.reduction.dtype = dtype_;
  plan.segment_bytes = kSegmentBytes;
  plan.place = place_.get();
  return plan;
}

void RingCrossing::begin() {
  if (is_under_way()) throw UsageError("a share crosses that has not come across from the last time");
  ring_.reset();
  const cuda::DeviceGuard guard(*lane_.runtime(), lane_.device());
  gathered_.record(lane_.stream());
  counters_.launches.add();
  counters_.bytes_between_devices.add(share_.size());
}

bool RingCrossing::advance() {
  if (!ring_ && !gathered_.passed()) return false;
  const cuda::DeviceGuard guard(*lane_.runtime(), lane_.device());  // MPI copies in the device that is current
  if (!ring_) {
    // The host has seen that it has passed; said to the device too, as in order_lane(). Not before: buckets share the
    // stream, and one whose gradients are not there yet would keep the others' sums waiting.
    lane_.copies().in.wait_for(gathered_);
    ring_.emplace(*wire_.ranks, wire_.tag, plan());
    busy_until_ = std::chrono::steady_clock::now() + kSegmentTime;
  }
  if (ring_->advance()) return true;
  peers_.look_after_peers();
  return false;
}

// The host has seen the sums; said to the device too, the order does not hang on what a host happened to see.
void RingCrossing::order_lane() {
  const cuda::DeviceGuard guard(*lane_.runtime(), lane_.device());
  added_.record(lane_.copies().in.view());
  cuda::wait_for(*lane_.runtime(), lane_.stream(), added_);
}

// MPI moves the parts of a large message in its own calls only, of which nothing is to be seen here: for as long as a
// segment may take, whoever asks is to look again at once.
bool RingCrossing::moved() noexcept {
  if (!is_under_way()) return false;
  const std::uint64_t completed = wire_.whole->completed();
  const auto now = std::chrono::steady_clock::now();
  if (std::exchange(completed_, completed) != completed) busy_until_ = now + kSegmentTime;
  return now < busy_until_;
}

std::vector<Rank> RingCrossing::waiting_for() const {
  std::vector<Rank> ranks;
  if (!ring_) return ranks;
  for (const Rank host : ring_->waiting_for()) {
    ranks.push_back(lane_.shares().ranks[static_cast<std::size_t>(host)]);
  }
  std::ranges::sort(ranks);
  return ranks;
}

}  // namespace kolo::device
