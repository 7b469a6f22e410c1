#include "run_job.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "base/strings.h"
#include "run_child.h"

namespace kolo::tools {
namespace {

std::string seconds(Job::Clock::duration time) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f s", std::chrono::duration<double>(time).count());
  return text;
}

constexpr std::size_t kMostStories = 16;  // the first of a job of thousands say why it has failed

constexpr int status_of_signal(int signal) { return 128 + signal; }

// A program that ends itself on what it found wrong is not one that somebody ended.
std::string ended_by(int signal) {
  if (signal == SIGABRT) return "aborted (SIGABRT)";
  const bool fault = signal == SIGSEGV || signal == SIGBUS || signal == SIGFPE || signal == SIGILL;
  return (fault ? "crashed by " : "killed by ") + signal_name(signal);
}

}  // namespace

std::string signal_name(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name == nullptr ? "signal " + std::to_string(signal) : "SIG" + std::string(name);
}

bool Job::started(const Hello& hello) {
  if (hello.rank < 0 || hello.rank >= policy_.ranks) return false;
  Rank& rank = ranks_[static_cast<std::size_t>(hello.rank)];
  if (rank.phase != Phase::awaited) return false;
  rank.phase = Phase::running;
  rank.host = hello.host;
  rank.pid = hello.pid;
  return true;
}

void Job::finish(int number, Phase phase, Clock::time_point now) {
  Rank& rank = ranks_[static_cast<std::size_t>(number)];
  rank.phase = phase;
  rank.when = now;
  rank.afterwards = ending_;
  if (status_of(rank) == 0) return;
  order_.push_back(number);
  if (!policy_.recovery && !cause_) cause_ = Cause{};
}

void Job::ended(int rank, End end, Clock::time_point now) {
  ranks_[static_cast<std::size_t>(rank)].end = end;
  finish(rank, end.how == How::orphaned ? Phase::lost : Phase::ended, now);
}

void Job::lost(int rank, Clock::time_point now) { finish(rank, Phase::lost, now); }

void Job::interrupted(int signal) {
  if (!cause_) cause_ = Cause{status_of_signal(signal), "interrupted by " + signal_name(signal)};
}

void Job::timed_out() {
  if (!cause_) cause_ = Cause{kStatusTimeout, "the time limit has passed"};
}

void Job::unwritable(const std::string& stream, int error) {
  if (cause_ || (over() && status() != 0)) return;
  cause_ = Cause{kStatusUnwritable, stream + " could not be written: " + std::strerror(error)};
}

void Job::launcher_ended(Clock::time_point now) {
  for (int rank = 0; rank < policy_.ranks; ++rank) {
    if (ranks_[static_cast<std::size_t>(rank)].phase == Phase::awaited) finish(rank, Phase::lost, now);
  }
}

bool Job::over() const {
  return std::all_of(ranks_.begin(), ranks_.end(),
                     [](const Rank& rank) { return rank.phase == Phase::ended || rank.phase == Phase::lost; });
}

bool Job::all_started() const {
  return std::none_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.phase == Phase::awaited; });
}

bool Job::ran() const {
  return std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) {
    return !rank.host.empty() && !(rank.phase == Phase::ended && rank.end.how == How::not_started);
  });
}

int Job::status_of(const Rank& rank) const {
  if (rank.phase == Phase::lost) return rank.host.empty() ? kStatusNotStarted : kStatusLost;
  if (rank.phase != Phase::ended) return 0;
  if (rank.end.how == How::signalled) return status_of_signal(rank.end.value);
  if (rank.end.how == How::not_started) return rank.end.value == ENOENT ? 127 : 126;
  return rank.end.value;
}

bool Job::killed(const Rank& rank) {
  if (rank.host.empty()) return false;
  return rank.phase == Phase::lost || rank.end.how == How::signalled;
}

std::vector<int> Job::by_guilt() const {
  std::vector<int> ranks = order_;
  std::stable_partition(ranks.begin(), ranks.end(), [&](int number) {
    const Rank& rank = ranks_[static_cast<std::size_t>(number)];
    return !rank.end.told && !(rank.afterwards && killed(rank));
  });
  return ranks;
}

bool Job::stopped() const {
  return std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) {
    return rank.phase == Phase::ended && rank.end.how == How::exited && rank.end.value == kStatusStopped;
  });
}

int Job::status() const {
  if (stopped()) return kStatusStopped;
  if (cause_ && !cause_->text.empty()) return cause_->status;
  const bool anybody_ok = order_.size() < ranks_.size();
  for (const int number : by_guilt()) {
    const Rank& rank = ranks_[static_cast<std::size_t>(number)];
    if (!(policy_.allow_lost && anybody_ok && killed(rank))) return status_of(rank);
  }
  return 0;
}

std::string Job::story(std::size_t number, bool first) const {
  const Rank& rank = ranks_[number];
  std::string text = "rank " + std::to_string(number);
  if (!rank.host.empty()) text += " on " + rank.host;
  if (rank.phase == Phase::lost && rank.host.empty()) return text + ": was not started";
  if (rank.phase == Phase::lost && rank.end.how == How::orphaned) {
    text += ": lost: the launcher's daemon on its host is gone";
  } else if (rank.phase == Phase::lost) {
    text += ": lost: its host, or its supervisor on the host, is gone or unreachable";
  } else if (rank.end.how == How::not_started) {
    text += ": '" + policy_.program + "' could not be started: " + start_error(rank.end.value);
  } else if (rank.end.how == How::signalled) {
    text += ": " + ended_by(rank.end.value);
  } else {
    text += ": exit status " + std::to_string(rank.end.value);
  }
  text += ", after " + seconds(rank.when - begin_);
  if (rank.end.told) return text + ", because another rank failed, left or was missing";
  return rank.afterwards && !first ? text + ", when the job was ended" : text;
}

std::vector<std::string> Job::summary(Clock::time_point now) const {
  int ok = 0;
  int failed = 0;
  int lost = 0;
  for (const Rank& rank : ranks_) {
    if (rank.phase == Phase::lost) {
      ++lost;
    } else {
      ++(status_of(rank) == 0 ? ok : failed);
    }
  }
  std::string first = base::counted(ranks_.size(), "rank") + ": ";
  if (stopped()) {
    first += "stopped early in " + seconds(now - begin_);
    if (cause_ && !cause_->text.empty()) first += "; " + cause_->text;
    return {first + "; exit status " + std::to_string(kStatusStopped) + ": start the job again"};
  }
  first += std::to_string(ok) + " ok";
  if (failed > 0) first += ", " + std::to_string(failed) + " failed";
  if (lost > 0) first += ", " + std::to_string(lost) + " lost";
  first += " in " + seconds(now - begin_);
  if (cause_ && !cause_->text.empty()) first += "; " + cause_->text;
  if (status() != 0) first += "; exit status " + std::to_string(status());
  std::vector<std::string> lines{first};
  const auto guilty = by_guilt();
  const std::size_t told = std::min(guilty.size(), kMostStories);
  for (std::size_t i = 0; i < told; ++i) lines.push_back(story(static_cast<std::size_t>(guilty[i]), i == 0));
  if (told < guilty.size()) lines.push_back("and " + base::counted(guilty.size() - told, "more rank"));
  return lines;
}

}  // namespace kolo::tools
