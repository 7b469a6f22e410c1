#include "run_shim.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <optional>
#include <stdexcept>

#include "base/environment.h"
#include "base/first_failure.h"
#include "run_child.h"
#include "run_cores.h"
#include "run_line.h"
#include "run_reap.h"
#include "run_signals.h"
#include "run_socket.h"
#include "run_wire.h"

namespace kolo::tools {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr int kDaemonDied = SIGPWR;  // which nobody else sends
constexpr auto kConnect = 30s;
constexpr auto kAfterTerm = 1500ms;  // from the launcher's SIGTERM to our SIGKILL; it kills us after 3 s
constexpr auto kDrain = 2s;          // for output that is still in pipes when all processes are gone
constexpr auto kFarewell = 10s;      // until all that was said has been heard
constexpr auto kDescendants = 2s;

std::string variable(const char* name) {
  if (auto value = base::get_environment(name)) return *std::move(value);
  throw std::runtime_error(std::string(name) + " is not set: only `kolo run` starts this command");
}

std::string host_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

class Supervisor {
 public:
  explicit Supervisor(const std::vector<std::string>& words);
  int run();

 private:
  void start(const std::vector<std::string>& words);
  void step(std::chrono::milliseconds at_most);
  void on_signals();
  void on_messages();
  void on_output(base::UniqueFd& stream, char name);
  void flush();
  void signal_rank(int signal);
  void collect();
  void end_rank();
  void drain();
  void say_farewell();
  [[nodiscard]] bool may_send() const { return sent_ - granted_ < kWindow; }

  const pid_t daemon_ = ::getppid();
  // All that somebody may send us for our rank.
  base::UniqueFd signals_ =
      signal_descriptor({SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, kDaemonDied});
  base::UniqueFd socket_;
  Child child_;
  base::UniqueFd report_;  // whether our rank was told of another's failure
  MessageReader reader_;
  std::string unsent_;
  std::size_t sent_ = 0;     // output, by cost_of
  std::size_t granted_ = 0;  // of them, written by `kolo run`
  bool connected_ = true;
  bool impatient_ = false;  // `kolo run` waits for our end, not for output that nobody reads
  std::optional<End> end_;
  std::optional<Clock::time_point> kill_at_;
};

Supervisor::Supervisor(const std::vector<std::string>& words) {
  ::prctl(PR_SET_PDEATHSIG, kDaemonDied);
  if (::getppid() != daemon_) throw std::runtime_error("the launcher's daemon has died");
  adopt_orphans();
  socket_ = connect_to(variable("KOLO_RUN_ADDRESS"), kConnect);
  Hello hello{variable("KOLO_RUN_TOKEN"), std::stoi(variable("OMPI_COMM_WORLD_RANK")), host_name(), 0};
  // Not for the program: it has no use for them, and they end up in its crash reports.
  base::unset_environment("KOLO_RUN_TOKEN");
  base::unset_environment("KOLO_RUN_ADDRESS");
  if (const auto cores = base::get_environment(kCoresVariable)) {
    bind_to(cpus_of_rank(usable_cores().cores, std::stoi(*cores), std::stoi(variable("OMPI_COMM_WORLD_LOCAL_RANK"))));
    base::unset_environment(kCoresVariable);
  }
  start(words);
  hello.pid = child_.pid;
  unsent_ = encode(hello);
  if (child_.pid == 0) end_ = End{How::not_started, child_.error};
}

void Supervisor::start(const std::vector<std::string>& words) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    throw std::runtime_error(std::string("socketpair: ") + std::strerror(errno));
  }
  report_.reset(ends[0]);
  const base::UniqueFd theirs(ends[1]);
  base::set_environment(base::kFirstFailureVariable, base::first_failure_variable(theirs.get()));
  std::vector<std::string> own;
  std::ranges::transform(words, std::back_inserter(own), unescape_colon);
  const int columns = std::stoi(variable(kColumnsVariable));
  if (columns > 0) {
    base::set_environment("COLUMNS", std::to_string(columns));  // for a program that asks standard error, a pipe
  } else {
    base::set_environment("TERM", "dumb");  // a file has no cursor to move, nor colours
  }
  child_ = start_child({.words = own, .death_signal = SIGKILL, .columns = columns, .inherited = theirs.get()});
}

int Supervisor::run() {
  while (!end_) {
    step(kill_at_
             ? std::chrono::ceil<std::chrono::milliseconds>(std::max(0ns, Clock::duration(*kill_at_ - Clock::now())))
             : 1h);
    if (kill_at_ && Clock::now() >= *kill_at_) signal_rank(SIGKILL);
  }
  end_rank();
  drain();
  say_farewell();
  remove_leftovers_of_rank(end_->how == How::orphaned);
  return 0;
}

// Waits for something to do, and does it.
void Supervisor::step(std::chrono::milliseconds at_most) {
  std::array<pollfd, 4> wait{{
      {signals_.get(), POLLIN, 0},
      {connected_ ? socket_.get() : -1, static_cast<short>(unsent_.empty() ? POLLIN : POLLIN | POLLOUT), 0},
      {may_send() ? child_.out.get() : -1, POLLIN, 0},
      {may_send() ? child_.err.get() : -1, POLLIN, 0},
  }};
  if (::poll(wait.data(), wait.size(), static_cast<int>(at_most.count())) <= 0) return;
  if (wait[2].revents != 0) on_output(child_.out, '1');
  if (wait[3].revents != 0) on_output(child_.err, '2');
  if (wait[1].revents != 0) on_messages();
  if (wait[0].revents != 0) on_signals();
  flush();
}

void Supervisor::on_signals() {
  signalfd_siginfo info{};
  while (::read(signals_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    const int signal = static_cast<int>(info.ssi_signo);
    if (signal == SIGCHLD) continue;
    if (signal == kDaemonDied) {
      end_ = End{How::orphaned, 0};
      return;
    }
    signal_rank(signal);
    if (signal == SIGTERM && !kill_at_) kill_at_ = Clock::now() + kAfterTerm;
  }
  collect();
}

// Orphans of our rank's may be among the dead, too.
void Supervisor::collect() {
  int status = 0;
  for (pid_t pid = ::waitpid(-1, &status, WNOHANG); pid > 0; pid = ::waitpid(-1, &status, WNOHANG)) {
    if (pid != child_.pid) continue;
    child_.pid = 0;
    end_ = WIFSIGNALED(status) ? End{How::signalled, WTERMSIG(status)} : End{How::exited, WEXITSTATUS(status)};
  }
}

void Supervisor::on_messages() {
  std::array<char, 4096> bytes;
  const ssize_t got = ::recv(socket_.get(), bytes.data(), bytes.size(), 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  try {
    if (got <= 0) throw std::runtime_error("the connection to kolo run is closed");
    reader_.append({bytes.data(), static_cast<std::size_t>(got)});
    while (const auto message = reader_.next()) {
      const std::uint32_t number = decode_number(message->body);
      if (message->type == MessageType::credit) granted_ += number;
      if (message->type == MessageType::signal) signal_rank(static_cast<int>(number));
      if (message->type == MessageType::signal && number == SIGKILL) impatient_ = true;
    }
  } catch (const std::runtime_error&) {
    // Nobody is left to report to, or to be stopped by.
    connected_ = false;
    unsent_.clear();
    if (!end_) end_ = End{How::signalled, SIGKILL};
  }
}

void Supervisor::on_output(base::UniqueFd& stream, char name) {
  std::array<char, kMaxOutput> bytes;
  const ssize_t got = ::read(stream.get(), bytes.data(), bytes.size());
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (got <= 0) {  // a terminal whose other side is closed says EIO
    stream.reset();
    return;
  }
  if (!connected_) return;
  sent_ += cost_of(static_cast<std::size_t>(got));
  std::string body(1, name);
  body.append(bytes.data(), static_cast<std::size_t>(got));
  unsent_ += encode(MessageType::output, body);
}

void Supervisor::flush() {
  while (connected_ && !unsent_.empty()) {
    const ssize_t gone = ::send(socket_.get(), unsent_.data(), unsent_.size(), MSG_NOSIGNAL);
    if (gone < 0) {
      if (errno == EAGAIN || errno == EINTR) return;
      on_messages();  // finds the error, and draws the conclusion
      return;
    }
    unsent_.erase(0, static_cast<std::size_t>(gone));
  }
}

void Supervisor::signal_rank(int signal) {
  if (child_.pid == 0) return;
  ::kill(-child_.pid, signal);
  // A stopped process hears a SIGTERM only when it goes on.
  if (signal == SIGTERM || signal == SIGINT || signal == SIGHUP) ::kill(-child_.pid, SIGCONT);
}

void Supervisor::end_rank() {
  signal_rank(SIGKILL);
  kill_descendants(kDescendants);
  child_.pid = 0;
}

// All writers are dead: the streams end. A reader that is slow is waited for, as the program would have.
void Supervisor::drain() {
  auto end = Clock::now() + kDrain;
  while (connected_ && (child_.out || child_.err) && Clock::now() < end) {
    if (!may_send() && !impatient_) end = Clock::now() + kDrain;
    step(100ms);
  }
}

void Supervisor::say_farewell() {
  end_->told = base::take_first_failure(report_.get()) == base::FirstFailure::peer;
  unsent_ += encode(*end_);
  flush();
  const auto end = Clock::now() + kFarewell;
  // `kolo run` closes the connection when it has read the end.
  while (connected_ && Clock::now() < end) step(100ms);
}

}  // namespace

int run_rank_shim(const std::vector<std::string>& words) {
  try {
    if (words.empty()) throw std::runtime_error("the program is missing");
    return Supervisor(words).run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "kolo: supervisor of a rank: %s\n", error.what());
    return 1;
  }
}

}  // namespace kolo::tools
