// Which operations wait for which others, and whether any do so in a circle: then none of them can ever run, whatever
// is enqueued later, and nobody has to wait to know.
#include <algorithm>
#include <map>

#include "support/device/device_streams.h"

namespace kolo::test {

// The queued operation of this id; null: it has run.
const Entry* DeviceStreams::find(OperationId id) const {
  for (const auto& stream : streams_) {
    if (stream->queue.empty()) continue;
    const OperationId first = operation_id(stream->queue.front().point);
    if (id >= first && id < first + stream->queue.size()) return &stream->queue[id - first];
  }
  return nullptr;
}

// The queued operations that have to run before this one has arrived at the front.
void DeviceStreams::add_earlier(const Entry& entry, std::vector<const Entry*>& into) const {
  const auto add = [&](OperationId id) {
    if (const Entry* const other = find(id); other != nullptr && other != &entry) into.push_back(other);
  };
  if (entry.point.position > 1) add(operation_id({entry.point.stream, entry.point.position - 1}));
  for (const Point& point : entry.after) {
    if (point.position != 0) add(operation_id(point));
  }
  for (const OperationId id : entry.operation.behind) add(id);
}

// The queued operations that have to run before this one can: those before it, and, for a collective, those before its
// peers, which have to arrive and not to run.
std::vector<const Entry*> DeviceStreams::needs(const Entry& entry) const {
  std::vector<const Entry*> found;
  add_earlier(entry, found);
  const bool ready = entry.arrived && entry.operation.ready && entry.operation.ready();
  if (entry.operation.waits_on && !entry.broken && !ready) {
    for (const OperationId id : entry.operation.waits_on()) {
      if (const Entry* const peer = find(id); peer != nullptr && !peer->arrived) add_earlier(*peer, found);
    }
  }
  return found;
}

std::string DeviceStreams::words(const Entry& entry) const {
  std::string text = *entry.what;
  for (const Entry* const other : needs(entry)) text += "; waits for " + *other->what;
  if (entry.operation.missing && !entry.broken) {
    if (const std::string missing = entry.operation.missing(); !missing.empty()) text += "; waits for " + missing;
  }
  return text;
}

std::string DeviceStreams::what_waits() const {
  std::string text;
  for (const auto& stream : streams_) {
    if (!stream->queue.empty()) text += "\n  " + words(stream->queue.front());
  }
  return text;
}

// Depth first from each stream's last operation, which needs all those before it. The path is kept by hand: queues may
// be long.
std::string DeviceStreams::new_circle() {
  enum class Seen { on_path, done };
  struct Step {
    const Entry* entry;
    std::vector<const Entry*> needs;
    std::size_t next = 0;
  };
  std::map<const Entry*, Seen> seen;
  for (const auto& stream : streams_) {
    if (stream->queue.empty() || seen.contains(&stream->queue.back())) continue;
    std::vector<Step> path;
    const auto enter = [&](const Entry* entry) {
      seen[entry] = Seen::on_path;
      path.push_back({entry, needs(*entry)});
    };
    enter(&stream->queue.back());
    while (!path.empty()) {
      Step& top = path.back();
      if (top.next == top.needs.size()) {
        seen[top.entry] = Seen::done;
        path.pop_back();
        continue;
      }
      const Entry* const other = top.needs[top.next++];
      const auto known = seen.find(other);
      if (known == seen.end()) {
        enter(other);
        continue;
      }
      if (known->second == Seen::done || circles_.contains(operation_id(other->point))) continue;
      std::string text;
      const auto first = std::find_if(path.begin(), path.end(), [&](const Step& step) { return step.entry == other; });
      for (auto step = first; step != path.end(); ++step) {
        circles_.insert(operation_id(step->entry->point));
        text += "\n  " + *step->entry->what + " waits for";
      }
      return text + "\n  " + *other->what;
    }
  }
  return {};
}

}  // namespace kolo::test
