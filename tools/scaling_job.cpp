#include "scaling_job.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <fstream>
#include <sstream>

#include "base/unique_fd.h"
#include "kolo/error.h"
#include "run_child.h"
#include "run_job.h"
#include "run_signals.h"
#include "scaling_log.h"
#include "scaling_statistics.h"

namespace kolo::tools {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds kInterval{50};
constexpr seconds kGrace{15};  // of the launcher, to end the ranks
constexpr std::size_t kShownLines = 12;
constexpr std::int64_t kMostOutput = 16 << 20;  // of a job, in output.txt

class RunningJob {
 public:
  explicit RunningJob(const JobOptions& options)
      : options_(options), signals_(watch_signals()), output_(options.folder / "output.txt", std::ios::binary) {
    for (int rank = 0; rank < options.ranks; ++rank) counters_.emplace_back(options.folder, rank);
    ChildOptions child;
    child.words = options.words;
    child.merged = child.no_input = true;
    child.death_signal = SIGTERM;
    child_ = start_child(child);
    if (child_.pid == 0) throw UsageError("cannot start " + options.words.front() + ": " + start_error(child_.error));
    ::fcntl(child_.out.get(), F_SETFL, O_NONBLOCK);  // a process of the job may keep it open for ever
  }

  ~RunningJob() { end(); }
  RunningJob(const RunningJob&) = delete;
  RunningJob& operator=(const RunningJob&) = delete;

  int run() {
    auto last_progress = Clock::now();
    for (;;) {
      wait();
      const auto [fewest, most] = count();
      if (fewest >= options_.steps) {
        run_on();
        return options_.steps;
      }
      if (has_ended()) return judge(fewest);
      if (fewest > fewest_) {
        fewest_ = fewest;
        last_progress = Clock::now();
        if (options_.progress) options_.progress(fewest);
      }
      // Ranks that wait for each other cannot be this far apart.
      if (options_.ranks_wait && most > 2 * options_.steps + 1000) {
        fail(fewest > 0 ? "the step log of a rank ended after step " + std::to_string(fewest)
                        : "a rank writes no step log. Does the launcher start the ranks of one job?");
      }
      if (Clock::now() - last_progress > options_.timeout) fail(stuck_text());
    }
  }

 private:
  // For output, a signal or the end of kInterval.
  void wait() {
    pollfd sources[2] = {{child_.out.get(), POLLIN, 0}, {signals_.get(), POLLIN, 0}};
    ::poll(sources, 2, static_cast<int>(kInterval.count()));
    if ((sources[0].revents & (POLLIN | POLLHUP)) != 0) read_output();
    signalfd_siginfo signal{};
    while (::read(signals_.get(), &signal, sizeof signal) == sizeof signal) {
      if (signal.ssi_signo != SIGCHLD) throw Interrupted{static_cast<int>(signal.ssi_signo)};
    }
  }

  void run_on() {
    const auto limit = Clock::now() + options_.run_on;
    while (!has_ended() && Clock::now() < limit) wait();
  }

  // Returns false if there is nothing to read now.
  bool read_output() {
    char buffer[1 << 14];
    const ssize_t got = ::read(child_.out.get(), buffer, sizeof buffer);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    if (got <= 0) {
      child_.out.reset();
      return false;
    }
    if (written_ < kMostOutput) output_.write(buffer, got).flush();
    written_ += got;
    tail_.append(buffer, static_cast<std::size_t>(got));
    if (tail_.size() > 2 * sizeof buffer) tail_.erase(0, tail_.size() - sizeof buffer);
    return true;
  }

  void drain() {
    while (child_.out && read_output()) {
    }
  }

  std::pair<int, int> count() {
    int fewest = options_.steps;
    int most = 0;
    for (StepCounter& counter : counters_) {
      const int steps = counter.count();
      fewest = std::min(fewest, steps);
      most = std::max(most, steps);
    }
    return {fewest, most};
  }

  // The launcher stays a zombie until end(), so that its process group keeps its number.
  bool has_ended() {
    siginfo_t info{};
    if (!ended_ && ::waitid(P_PID, static_cast<id_t>(child_.pid), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
        info.si_pid == child_.pid) {
      ended_ = true;
      killed_ = info.si_code != CLD_EXITED;
      status_ = info.si_status;
    }
    return ended_;
  }

  // The job has ended by itself, with `steps` recorded when it was looked at last.
  int judge(int steps) {
    drain();
    steps = std::max(steps, count().first);
    if (killed_) fail("the job was ended by " + signal_name(status_) + after(steps));
    if (status_ != 0) fail("the job ended with status " + std::to_string(status_) + after(steps));
    const int enough = options_.warmup + static_cast<int>(kBlockSteps);
    if (steps >= enough) return steps;
    if (steps == 0) {
      fail(
          "the program ended without a step in its step log. Is it linked with kolo, and does it train with a "
          "kolo::DistributedOptimizer?");
    }
    fail("the program ended by itself" + after(steps) + "; at least " + std::to_string(enough) +
         " are needed (--warmup and a block of " + std::to_string(kBlockSteps) + "). Let it train longer");
  }

  std::string after(int steps) const { return " after " + std::to_string(steps) + " recorded steps"; }

  std::string stuck_text() {
    const std::string limit = std::to_string(std::chrono::duration_cast<seconds>(options_.timeout).count()) + " s";
    if (fewest_ > 0) return "no step for " + limit + after(fewest_) + ". Raise --timeout if steps take this long";
    return "no step was recorded within " + limit +
           ". Does the program train with a kolo::DistributedOptimizer? Do all hosts see the folder of --out? Raise "
           "--timeout if it takes this long to start";
  }

  [[noreturn]] void fail(const std::string& what) {
    end();
    drain();
    std::deque<std::string> lines;
    std::istringstream text(tail_);
    for (std::string line; std::getline(text, line);) {
      if (line.find("frame #") != std::string::npos) continue;  // of a stack that LibTorch appends to a message
      lines.push_back(line);
      if (lines.size() > kShownLines) lines.pop_front();
    }
    std::string shown =
        lines.empty() ? "" : "\nThe last lines of its output (" + (options_.folder / "output.txt").string() + "):";
    for (const std::string& line : lines) shown += "\n  " + line;
    throw UsageError(what + shown);
  }

  // The launcher ends its ranks when it is told to; what is left of its process group after kGrace is killed.
  void end() {
    if (child_.pid == 0) return;
    const auto limit = Clock::now() + kGrace;
    if (!has_ended()) ::kill(-child_.pid, SIGTERM);
    while (!has_ended() && Clock::now() < limit) {
      pollfd source{child_.out.get(), POLLIN, 0};
      ::poll(&source, child_.out ? 1 : 0, static_cast<int>(kInterval.count()));
      if (source.revents != 0) read_output();
    }
    ::kill(-child_.pid, SIGKILL);
    ::waitpid(child_.pid, nullptr, 0);
    child_.pid = 0;
  }

  const JobOptions& options_;
  base::UniqueFd signals_;
  std::ofstream output_;
  std::vector<StepCounter> counters_;
  Child child_;
  bool ended_ = false;  // the launcher; then the next two say how
  bool killed_ = false;
  int status_ = 0;  // or the signal
  std::int64_t written_ = 0;
  std::string tail_;
  int fewest_ = 0;
};

}  // namespace

base::UniqueFd watch_signals() { return signal_descriptor({SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGCHLD}); }

int run_job(const JobOptions& options) { return RunningJob(options).run(); }

}  // namespace kolo::tools
