#include "support/device/device_streams.h"

#include <algorithm>
#include <exception>
#include <utility>

namespace kolo::test {
namespace {

constexpr int kPositionBits = 44;

}  // namespace

OperationId operation_id(const Point& point) {
  return (static_cast<OperationId>(point.stream + 1) << kPositionBits) | point.position;
}

DeviceStreams::DeviceStreams(const DeviceOptions& options, DeviceMemory& memory, DeviceMemory::Report report)
    : random_(options.seed), memory_(memory), report_(std::move(report)), takes_(options.takes) {
  for (int device = 0; device < options.devices; ++device) create(device, false).legacy = true;
  favourites_ = random_() % 2 == 0;
}

SimulatedStream& DeviceStreams::create(int device, bool blocking) {
  auto& stream = *streams_.emplace_back(std::make_unique<SimulatedStream>());
  stream.index = streams_.size() - 1;
  stream.device = device;
  stream.blocking = blocking;
  return stream;
}

SimulatedStream* DeviceStreams::find(cuda::StreamHandle handle, int device) {
  for (const auto& stream : streams_) {
    const bool is = handle == nullptr ? stream->legacy && stream->device == device
                                      : !stream->legacy && !stream->destroyed && stream.get() == handle;
    if (is) return stream.get();
  }
  return nullptr;
}

int DeviceStreams::live() const {
  return static_cast<int>(std::count_if(streams_.begin(), streams_.end(),
                                        [](const auto& each) { return !each->legacy && !each->destroyed; }));
}

Entry& DeviceStreams::enqueue(SimulatedStream& stream, Operation operation, std::vector<Point> after,
                              const Clock& known) {
  Entry entry;
  entry.point = {stream.index, ++stream.issued};
  entry.issued = host_time_;
  entry.after = std::move(after);
  join(stream.clock, known);
  for (const auto& other : streams_) {  // the default stream and the blocking ones of its device wait for each other
    const bool ordered =
        other->device == stream.device && ((stream.legacy && other->blocking) || (stream.blocking && other->legacy));
    if (!ordered || other->issued == 0) continue;
    entry.after.push_back({other->index, other->issued});
    join(stream.clock, other->clock);
  }
  if (stream.clock.size() <= stream.index) stream.clock.resize(stream.index + 1, 0);
  stream.clock[stream.index] = stream.issued;
  entry.clock = stream.clock;
  join(entry.clock, host_order_);  // the host knew it when it enqueued this
  stream.clock = entry.clock;
  entry.what = std::make_shared<const std::string>(
      operation.what + " (" + std::to_string(stream.issued) + " in " +
      (stream.legacy ? std::string("the default stream") : "stream " + std::to_string(stream.index)) + " of device " +
      std::to_string(stream.device) + ")");
  entry.operation = std::move(operation);
  return stream.queue.emplace_back(std::move(entry));
}

void DeviceStreams::record(SimulatedEvent& event, SimulatedStream& stream) {
  const Entry& entry = enqueue(stream, {.what = "record of an event"});
  event.point = entry.point;
  event.clock = entry.clock;
}

void DeviceStreams::wait(SimulatedStream& stream, const SimulatedEvent& event) {
  enqueue(stream, {.what = "wait for an event"}, {event.point}, event.clock);
}

std::vector<Point> DeviceStreams::pending(const SimulatedStream& stream) const {
  std::vector<Point> found{{stream.index, stream.issued}};
  for (const auto& other : streams_) {
    if (stream.legacy && other->blocking && other->device == stream.device) {
      found.push_back({other->index, other->issued});
    }
  }
  return found;
}

Clock DeviceStreams::clock_of(const SimulatedStream& stream) const {
  Clock clock = stream.clock;
  for (const Point& point : pending(stream)) join(clock, streams_[point.stream]->clock);
  return clock;
}

Clock DeviceStreams::everything() const {
  Clock clock;
  for (const auto& stream : streams_) join(clock, stream->clock);
  return clock;
}

bool DeviceStreams::runnable(SimulatedStream& stream) {
  if (stream.queue.empty()) return false;
  Entry& front = stream.queue.front();
  for (const Point& point : front.after) {
    if (!done(point)) return false;
  }
  for (const OperationId id : front.operation.behind) {
    if (find(id) != nullptr) return false;
  }
  if (!front.arrived) arrive(front);
  return true;
}

void DeviceStreams::arrive(Entry& entry) {
  entry.arrived = true;
  entry.arrived_at = std::max(entry.issued, end_of({entry.point.stream, entry.point.position - 1}));
  for (const Point& point : entry.after) entry.arrived_at = std::max(entry.arrived_at, end_of(point));
  if (entry.operation.meets) arrivals_[operation_id(entry.point)] = entry.arrived_at;
  if (entry.operation.arrived && !entry.broken) entry.operation.arrived();
}

SimulatedTime DeviceStreams::end_of(const Entry& entry) const {
  SimulatedTime begin = entry.arrived_at;
  if (entry.operation.meets) {
    for (const OperationId id : entry.operation.meets()) {
      const auto arrival = arrivals_.find(id);
      if (arrival != arrivals_.end()) begin = std::max(begin, arrival->second);
    }
  }
  return begin + (takes_ ? takes_(entry.operation.what) : entry.operation.takes);
}

std::vector<SimulatedStream*> DeviceStreams::candidates() {
  std::vector<SimulatedStream*> found;
  for (const auto& stream : streams_) {
    if (runnable(*stream)) found.push_back(stream.get());
  }
  // Asked only when all have arrived that could: the last arrival makes the earlier ones ready.
  std::erase_if(found, [](SimulatedStream* stream) {
    const Operation& front = stream->queue.front().operation;
    return front.ready && !stream->queue.front().broken && !front.ready();
  });
  return found;
}

// Evenly, or (in half of all seeds) by favours that last for a while: so some streams get far ahead of others.
SimulatedStream& DeviceStreams::choose(const std::vector<SimulatedStream*>& from) {
  if (!favourites_) return *from[random_() % from.size()];
  if (until_new_favours_-- <= 0) {
    until_new_favours_ = static_cast<int>(random_() % 40);
    for (const auto& stream : streams_) stream->favour = static_cast<int>(random_() % 1000);
  }
  return **std::max_element(from.begin(), from.end(), [](auto* a, auto* b) { return a->favour < b->favour; });
}

void DeviceStreams::run_front(SimulatedStream& stream) {
  Entry entry = std::move(stream.queue.front());
  stream.queue.pop_front();
  try {
    if (!entry.broken) run_body(stream, entry);
  } catch (const std::exception& error) {
    report_(Fault::bad_call, *entry.what + ": " + error.what());
  }
  stream.ends.push_back(end_of(entry));
  stream.done = entry.point.position;
}

void DeviceStreams::run_body(SimulatedStream& stream, Entry& entry) {
  const std::vector<Range> ranges = entry.late_ranges ? entry.late_ranges() : entry.operation.ranges;
  bool usable = true;
  for (const Range& range : ranges) {
    // What copies and collectives reach was looked at when they were enqueued; it may have been released since.
    usable = memory_.usable(range, entry.kernel ? stream.device : -1, *entry.what) && usable;
  }
  if (!usable) return;
  memory_.use(ranges, {entry.clock, {stream.index, entry.point.position, entry.what}});
  if (!entry.operation.run) return;
  entry.operation.run();
  memory_.check_guards(*entry.what, entry.kernel && !entry.late_ranges);
}

std::size_t DeviceStreams::run_some() {
  constexpr std::size_t kCounts[] = {0, 0, 1, 1, 2, 3, 8, 64};
  const std::size_t count = kCounts[random_() % std::size(kCounts)];
  std::size_t ran = 0;
  while (ran < count) {
    const auto from = candidates();
    if (from.empty()) break;
    run_front(choose(from));
    ++ran;
  }
  return ran;
}

std::size_t DeviceStreams::run_all() {
  std::size_t ran = 0;
  for (auto from = candidates(); !from.empty(); from = candidates(), ++ran) run_front(choose(from));
  return ran;
}

bool DeviceStreams::stuck() { return queued() != 0 && candidates().empty(); }

std::size_t DeviceStreams::queued() const {
  std::size_t sum = 0;
  for (const auto& stream : streams_) sum += stream->queue.size();
  return sum;
}

std::vector<std::string> DeviceStreams::queued_on(const Range& range, bool mark_broken) {
  std::vector<std::string> found;
  const auto* const begin = static_cast<const std::byte*>(range.memory);
  for (const auto& stream : streams_) {
    for (Entry& entry : stream->queue) {
      for (const Range& other : entry.operation.ranges) {
        const auto* const first = static_cast<const std::byte*>(other.memory);
        const bool overlap = first < begin + range.bytes && begin < first + other.bytes;
        if (!overlap || (range.access == Access::read && other.access == Access::read)) continue;
        found.push_back(*entry.what);
        entry.broken = entry.broken || mark_broken;
        break;
      }
    }
  }
  return found;
}

}  // namespace kolo::test
