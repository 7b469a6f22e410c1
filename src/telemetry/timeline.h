#pragma once
// The timeline of one rank: a trace in Chrome's format, an event a line, which Perfetto and `kolo trace merge` read.
// A writer thread writes the file; add() only appends to a queue.
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/unique_fd.h"
#include "telemetry/counters.h"
#include "telemetry/run_file.h"

namespace kolo::telemetry {

// Where an event is drawn. kThreadTrack: the track of the calling thread. Reductions overlap, so each bucket of each
// reducer has a track.
inline constexpr std::uint32_t kThreadTrack = 0;
inline constexpr std::uint32_t kPhaseTrack = 1;
inline constexpr std::uint32_t kFirstBucketTrack = 1000;
inline constexpr std::uint32_t kTracksOfAReducer = 4000;
[[nodiscard]] constexpr std::uint32_t bucket_track(std::size_t reducer, std::size_t bucket) noexcept {
  return kFirstBucketTrack + static_cast<std::uint32_t>(reducer * kTracksOfAReducer + bucket % kTracksOfAReducer);
}

struct TimelineEvent {
  const char* name = "";            // a string literal
  const char* algorithm = nullptr;  // of a reduction; a string literal
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
  std::uint64_t bytes = 0;  // 0: unknown
  std::uint64_t round = 0;
  std::uint32_t track = kThreadTrack;
};

// Thread-safe.
class Timeline {
 public:
  using Warn = std::function<void(const std::string&)>;
  // Replaces `path`. Throws UsageError if the file cannot be created. `warn` gets one line if a write fails: events are
  // then dropped, and training goes on. `counters` is borrowed.
  Timeline(const std::string& path, const RunFacts& facts, Counters& counters, Warn warn);
  ~Timeline();  // writes what is queued and completes the file
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  void add(TimelineEvent event) noexcept;

 private:
  void run();
  void write(const std::vector<TimelineEvent>& events);
  void put(const std::string& text) noexcept;

  std::string path_;
  int rank_;
  Counters& counters_;
  Warn warn_;
  base::UniqueFd file_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<TimelineEvent> queue_;   // guarded by mutex_
  bool stopping_ = false;              // guarded by mutex_
  bool failed_ = false;                // a write failed: later events are dropped; used by the writer only
  std::vector<std::uint32_t> tracks_;  // that have a name in the file; used by the writer only
  std::thread writer_;
};

}  // namespace kolo::telemetry
