#include "telemetry/timeline.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include "base/start_thread.h"
#include "base/system_error.h"

namespace kolo::telemetry {
namespace {

// The writer wakes after this time, or when so many events wait; beyond the last number events are dropped.
constexpr std::chrono::milliseconds kInterval{200};
constexpr std::size_t kManyEvents = 1 << 13;
constexpr std::size_t kMostEvents = 1 << 20;

std::uint32_t thread_number() noexcept {
  thread_local const auto number = static_cast<std::uint32_t>(::syscall(SYS_gettid));
  return number;
}

// Tracks of threads have the thread's number, which is larger than the others only by chance: they get this beside it.
constexpr std::uint32_t kFirstThreadTrack = 1U << 24;

std::string name_of_track(std::uint32_t track) {
  if (track == kPhaseTrack) return "step";
  if (track >= kFirstThreadTrack) return "thread " + std::to_string(track - kFirstThreadTrack);
  const std::uint32_t reducer = (track - kFirstBucketTrack) / kTracksOfAReducer;
  const std::string bucket = "bucket " + std::to_string((track - kFirstBucketTrack) % kTracksOfAReducer);
  return reducer == 0 ? bucket : "gradients/" + std::to_string(reducer) + " " + bucket;
}

}  // namespace

Timeline::Timeline(const std::string& path, const RunFacts& facts, Counters& counters, Warn warn)
    : path_(path),
      rank_(facts.rank),
      counters_(counters),
      warn_(std::move(warn)),
      file_(open_run_file("timeline", path, OpenMode::replace)) {
  const std::string rank = std::to_string(rank_);
  put("[\n{\"name\":\"kolo\",\"ph\":\"M\",\"pid\":" + rank + ",\"args\":" + head_of("timeline", facts) +
      "},\n{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":" + rank + ",\"args\":{\"name\":\"rank " + rank +
      "\"}},\n{\"name\":\"process_sort_index\",\"ph\":\"M\",\"pid\":" + rank + ",\"args\":{\"sort_index\":" + rank +
      "}}");
  queue_.reserve(kManyEvents);
  writer_ = base::start_thread("the timeline", [this] { run(); });
}

Timeline::~Timeline() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  writer_.join();
  put("\n]\n");
}

void Timeline::add(TimelineEvent event) noexcept {
  if (event.track == kThreadTrack) event.track = kFirstThreadTrack + thread_number();
  bool many = false;
  try {
    const std::lock_guard lock(mutex_);
    if (queue_.size() < kMostEvents) {
      queue_.push_back(event);
    } else {
      counters_.timeline_dropped.add();
    }
    many = queue_.size() == kManyEvents;
  } catch (const std::exception&) {  // no memory, or no lock
    counters_.timeline_dropped.add();
  }
  if (many) wake_.notify_one();
}

void Timeline::run() {
  std::vector<TimelineEvent> events;
  for (bool last = false; !last;) {
    {
      std::unique_lock lock(mutex_);
      wake_.wait_for(lock, kInterval, [this] { return stopping_ || queue_.size() >= kManyEvents; });
      last = stopping_;
      events.swap(queue_);
    }
    write(events);
    events.clear();
  }
}

void Timeline::write(const std::vector<TimelineEvent>& events) {
  std::string text;
  const std::string rank = std::to_string(rank_);
  for (const TimelineEvent& event : events) {
    const std::string place = ",\"pid\":" + rank + ",\"tid\":" + std::to_string(event.track);
    if (std::ranges::find(tracks_, event.track) == tracks_.end()) {
      tracks_.push_back(event.track);
      text += ",\n{\"name\":\"thread_name\",\"ph\":\"M\"" + place + ",\"args\":{\"name\":\"" +
              name_of_track(event.track) + "\"}}";
    }
    text += ",\n{\"name\":" + quoted(event.name) + ",\"ph\":\"X\"" + place +
            ",\"ts\":" + microseconds_text(event.begin_ns) +
            ",\"dur\":" + microseconds_text(event.end_ns - event.begin_ns);
    if (event.bytes != 0 || event.algorithm != nullptr) {
      text += ",\"args\":{\"bytes\":" + std::to_string(event.bytes);
      if (event.algorithm != nullptr) {
        text += ",\"round\":" + std::to_string(event.round) + ",\"algorithm\":\"" + event.algorithm + "\"";
      }
      text += "}";
    }
    text += "}";
  }
  put(text);
  if (failed_) counters_.timeline_dropped.add(events.size());
}

void Timeline::put(const std::string& text) noexcept {
  if (failed_) return;
  const int error = write_all(file_.get(), text);
  failed_ = error != 0;
  if (!failed_) return;
  try {
    warn_("timeline: state=ended file=" + path_ + " error=\"" + base::errno_text(error) +
          "\". Training continues. Free space, or choose a file on another disk");
  } catch (const std::exception&) {  // no memory for the words
  }
}

}  // namespace kolo::telemetry
