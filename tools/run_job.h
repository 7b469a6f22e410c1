#pragma once
// What is known of the ranks of a job, when it is over, and which status that is. Pure: events in, decisions out.
#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "run_wire.h"

namespace kolo::tools {

// Statuses of `kolo run` that are not a rank's own. A rank that was killed by a signal is 128 + its number.
inline constexpr int kStatusTimeout = 124;
inline constexpr int kStatusLost = 120;        // a host, or the launcher's daemon on it, is gone or out of reach
inline constexpr int kStatusNotStarted = 121;  // the launcher did not start all ranks, or ended before they did
inline constexpr int kStatusUnwritable = 122;  // what ranks wrote could not be written
// A rank's own: it has stopped early and asks to be started again (Checkpointer::kStoppedStatus, EX_TEMPFAIL).
inline constexpr int kStatusStopped = 75;

struct JobPolicy {
  std::string program;  // as it was given, for what is said of it
  int ranks = 0;
  bool recovery = false;    // a rank that fails does not end the others
  bool allow_lost = false;  // nor is it a failure of the job, when it was killed or lost
};

class Job {
 public:
  using Clock = std::chrono::steady_clock;

  enum class Phase { awaited, running, ended, lost };
  struct Rank {
    Phase phase = Phase::awaited;
    std::string host;
    long pid = 0;
    End end;
    bool afterwards = false;  // ended when the job was being ended
    Clock::time_point when;
  };

  Job(JobPolicy policy, Clock::time_point begin) : policy_(std::move(policy)), begin_(begin), ranks_(policy_.ranks) {}

  // False for a rank that cannot be, or is there already.
  bool started(const Hello& hello);
  void ended(int rank, End end, Clock::time_point now);
  // Its connection is gone, and it had not said that it ends.
  void lost(int rank, Clock::time_point now);
  // The ranks are being ended from now on: how they end says nothing of them.
  void ending() { ending_ = true; }
  // The user, by a signal, or the time limit (no signal). The first one counts.
  void interrupted(int signal);
  void timed_out();
  // What ranks write to `stream` is lost from now on. Not the cause when there was another failure.
  void unwritable(const std::string& stream, int error);
  // The launcher has ended, or is given up: who is not there now will not come.
  void launcher_ended(Clock::time_point now);

  // All ranks have ended or are lost.
  [[nodiscard]] bool over() const;
  // Something has happened that ends the job for all.
  [[nodiscard]] bool failed() const { return cause_.has_value(); }
  [[nodiscard]] bool all_started() const;
  // Every rank's program could be started.
  [[nodiscard]] bool ran() const;
  // kStatusStopped if all ranks ended with it, whatever has ended the job.
  [[nodiscard]] int status() const;
  [[nodiscard]] const std::vector<Rank>& ranks() const { return ranks_; }
  // Lines for people, without a newline. The first says how many; the others whom it happened to.
  [[nodiscard]] std::vector<std::string> summary(Clock::time_point now) const;

 private:
  struct Cause {
    int status = 0;    // unless it is a rank's
    std::string text;  // none: a rank's end
  };
  void finish(int rank, Phase phase, Clock::time_point now);
  [[nodiscard]] int status_of(const Rank& rank) const;
  [[nodiscard]] bool stopped() const;
  // In the order of ends, but those first that had not been told of another's failure, and had not been ended for it.
  [[nodiscard]] std::vector<int> by_guilt() const;
  // Of a rank whose end a job with recovery and allow_lost may go on without.
  [[nodiscard]] static bool killed(const Rank& rank);
  [[nodiscard]] std::string story(std::size_t rank, bool first) const;

  JobPolicy policy_;
  Clock::time_point begin_;
  std::vector<Rank> ranks_;
  std::optional<Cause> cause_;
  bool ending_ = false;
  std::vector<int> order_;  // ranks that ended other than with 0, the first one first
};

// "SIGKILL", or "signal 40" where it has no name.
[[nodiscard]] std::string signal_name(int signal);

}  // namespace kolo::tools
