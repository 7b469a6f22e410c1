#include "run_launcher.h"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "base/environment.h"
#include "run_reap.h"
#include "run_signals.h"

namespace kolo::tools {
namespace {

using namespace std::chrono_literals;

constexpr auto kStart = 120s;          // until all ranks are there; ssh to a host that does not answer takes that long
constexpr auto kIntroduction = 10s;    // until a connection has said who it is
constexpr auto kStrangers = 256;       // connections that have not said yet, at once
constexpr auto kOrphans = 5s;          // until ranks have ended whose mpirun is gone
constexpr auto kMpirun = 5s;           // until mpirun has ended, after all its ranks
constexpr auto kMpirunAfterLoss = 1s;  // the same when ranks have failed: it may be waiting for them, for ever
constexpr auto kReap = 5s;
constexpr auto kUnfinished = 200ms;  // until a piece of a line is written without the rest: a progress bar

// What Open MPI 4.1 says of things that are as they should be: a rank that ended early (which is in our summary), and a
// daemon that was started before it could be put into a process group.
bool is_noise(std::string_view line) {
  return line.find("PMIX ERROR: BAD-PARAM in file ../../../src/event/pmix_event_notification.c") != line.npos ||
         line.find("plm:rsh: Warning: setpgid(") != line.npos;
}

std::string without_noise(const std::string& lines) {
  std::string rest;
  for (std::size_t begin = 0; begin < lines.size();) {
    const std::size_t end = lines.find('\n', begin) + 1;
    const std::string line = lines.substr(begin, end - begin);
    if (!is_noise(line)) rest += line;
    begin = end;
  }
  return rest;
}

// What Open MPI 4.1 says when it cannot start ranks for want of files. Then it does nothing more, and does not end.
bool tells_of_too_few_files(std::string_view lines) {
  return lines.find("system limit on number of pipes a process can open was reached") != lines.npos;
}

// A batch system's word to the program, of a time limit that is near; nothing that would end a job.
constexpr bool is_for_ranks(int signal) { return signal == SIGUSR1 || signal == SIGUSR2; }

bool are_one_file(int first, int second) {
  struct stat one = {};
  struct stat other = {};
  return ::fstat(first, &one) == 0 && ::fstat(second, &other) == 0 && one.st_dev == other.st_dev &&
         one.st_ino == other.st_ino;
}

constexpr bool is_for_an_end(int signal) { return signal != SIGCHLD && signal != SIGTSTP && !is_for_ranks(signal); }

}  // namespace

Launcher::Launcher(const RunOptions& options, std::vector<std::string> line, Listener listener, Names names)
    : options_(options),
      line_(std::move(line)),
      listener_(std::move(listener)),
      names_(std::move(names)),
      job_({options.command.front(), options.ranks, options.recovery, options.allow_lost}, begin_),
      signals_(signal_descriptor({SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGALRM, SIGTSTP, SIGUSR1, SIGUSR2})),
      out_(STDOUT_FILENO),
      err_(STDERR_FILENO),
      one_file_(are_one_file(STDOUT_FILENO, STDERR_FILENO)) {}

int Launcher::run() {
  start();
  while (!job_.over()) {
    step();
    advance();
  }
  end_mpirun();
  if (!end_processes_of(names_.job, SIGKILL, kReap)) say("some processes of the job have not ended after SIGKILL");
  remove_session_of(mpirun_.pid);
  note_unwritable();
  const auto lines = job_.summary(Clock::now());
  for (std::size_t i = 0; i < lines.size() && (!options_.quiet || !job_.ran()); ++i)
    say((i > 0 ? "  " : "") + lines[i]);
  drain_output();
  if (note_unwritable()) drain_output();
  return job_.status();
}

void Launcher::start() {
  base::set_environment("KOLO_RUN_ADDRESS", listener_.address);
  base::set_environment("KOLO_RUN_TOKEN", names_.token);
  base::set_environment(kJobVariable, names_.job);
  for (const std::string& given : options_.environment) {
    const std::size_t equals = given.find('=');
    if (equals != std::string::npos) base::set_environment(given.substr(0, equals), given.substr(equals + 1));
  }
  // In a process group of its own: what the terminal sends on Ctrl-C is for us, who pass it on and count the time.
  mpirun_ = start_child({line_, true, ::isatty(STDIN_FILENO) == 1, SIGTERM, raise_file_limit()});
  if (mpirun_.pid == 0) throw std::runtime_error(line_.front() + ": " + start_error(mpirun_.error));
}

std::chrono::milliseconds Launcher::until_next() const {
  auto next = Clock::now() + 1h;
  if (deadline_) next = std::min(next, *deadline_);
  if (orphans_deadline_) next = std::min(next, *orphans_deadline_);
  if (stage_ == Stage::running && options_.timeout > 0ms) next = std::min(next, begin_ + options_.timeout);
  if (stage_ == Stage::running && !job_.all_started()) next = std::min(next, begin_ + kStart);
  for (const auto& connection : connections_) {
    if (connection->rank < 0) next = std::min(next, connection->since + kIntroduction);
    for (const Stream& stream : connection->streams) {
      if (!stream.unfinished_since || !stream.output->empty()) continue;
      next = std::min(next, *stream.unfinished_since + kUnfinished);
    }
  }
  return std::max(0ms, std::chrono::ceil<std::chrono::milliseconds>(next - Clock::now()));
}

// Waits for something to happen, and takes note of it.
void Launcher::step() {
  std::vector<pollfd> wait{{signals_.get(), POLLIN, 0},
                           {mpirun_.out.get(), POLLIN, 0},
                           {listener_.socket.get(), POLLIN, 0},
                           {out_.empty() ? -1 : out_.descriptor(), POLLOUT, 0},
                           {err_.empty() ? -1 : err_.descriptor(), POLLOUT, 0}};
  const std::size_t fixed = wait.size();
  for (const auto& connection : connections_) {
    wait.push_back(
        {connection->socket.get(), static_cast<short>(connection->unsent.empty() ? POLLIN : POLLIN | POLLOUT), 0});
  }
  if (::poll(wait.data(), wait.size(), static_cast<int>(until_next().count())) < 0 && errno != EINTR) {
    throw std::runtime_error(std::string("poll: ") + std::strerror(errno));
  }
  for (std::size_t i = fixed; i < wait.size(); ++i) {
    if (wait[i].revents != 0) on_connection(*connections_[i - fixed]);
  }
  if (wait[2].revents != 0) on_new_connection();
  if (wait[1].revents != 0) on_mpirun_output();
  if (wait[0].revents != 0) on_signals();
  write_output();
  std::erase_if(connections_, [](const auto& connection) { return connection->finished; });
}

// What follows from what is known, and from the time.
void Launcher::advance() {
  const auto now = Clock::now();
  for (const auto& connection : connections_) {
    if (connection->rank < 0 && now >= connection->since + kIntroduction) connection->finished = true;
  }
  pass_on_unfinished(now);
  if (orphans_deadline_ && now >= *orphans_deadline_) give_up();
  if ((out_.error() != 0 || err_.error() != 0) && (stage_ == Stage::running || stage_ == Stage::last_words)) {
    if (!note_unwritable()) job_.interrupted(SIGPIPE);
    stopped_ = true;
    enter(Stage::asked, SIGTERM);
  }
  if (stage_ == Stage::running) {
    if (options_.timeout > 0ms && now >= begin_ + options_.timeout) {
      job_.timed_out();
      stopped_ = true;
      enter(Stage::asked, SIGTERM);
    } else if (!job_.all_started() && now >= begin_ + kStart) {
      job_.launcher_ended(now);
      enter(Stage::asked, SIGTERM);
    } else if (job_.failed()) {
      enter(Stage::last_words, 0);
    }
  } else if (deadline_ && now >= *deadline_) {
    if (stage_ == Stage::last_words) {
      enter(Stage::asked, SIGTERM);
    } else if (stage_ == Stage::asked) {
      enter(Stage::killed, SIGKILL);
    } else {
      give_up();
    }
  }
}

void Launcher::enter(Stage stage, int signal) {
  stage_ = stage;
  deadline_ = Clock::now() + std::max(options_.grace, 100ms);
  if (stage == Stage::killed) deadline_ = Clock::now() + kOrphans;
  if (signal == 0) return;
  job_.ending();
  send_to_all(signal);
  // Those that have not said hello are the launcher's to end.
  if (!job_.all_started() && !mpirun_ended_) ::kill(mpirun_.pid, signal == SIGKILL ? SIGKILL : SIGTERM);
}

// Whoever has not ended by now is not going to tell us.
void Launcher::give_up() {
  const auto now = Clock::now();
  job_.launcher_ended(now);
  for (int rank = 0; rank < options_.ranks; ++rank) {
    if (job_.ranks()[static_cast<std::size_t>(rank)].phase == Job::Phase::running) job_.lost(rank, now);
  }
}

void Launcher::on_signals() {
  signalfd_siginfo info{};
  while (::read(signals_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    const int signal = static_cast<int>(info.ssi_signo);
    if (signal == SIGCHLD) {
      on_mpirun_end();
    } else if (signal == SIGTSTP) {
      say("a job cannot be suspended, because its ranks would continue");
    } else if (is_for_ranks(signal)) {
      send_to_all(signal);
    } else {
      on_interruption(signal);
    }
  }
}

void Launcher::on_interruption(int signal) {
  if (stage_ == Stage::running || stage_ == Stage::last_words) {
    job_.interrupted(signal);
    stopped_ = true;
    // A program may have an alarm of its own, which is not a reason for it to end.
    enter(Stage::asked, signal == SIGALRM ? SIGTERM : signal);
  } else if (stage_ == Stage::asked) {
    enter(Stage::killed, SIGKILL);
  } else {
    stopped_ = true;
  }
}

void Launcher::on_mpirun_end() {
  if (mpirun_ended_ || ::waitpid(mpirun_.pid, nullptr, WNOHANG) != mpirun_.pid) return;
  mpirun_ended_ = true;
  orphans_deadline_ = Clock::now() + (job_.all_started() ? Clock::duration(kOrphans) : Clock::duration(500ms));
}

void Launcher::on_mpirun_output() {
  std::array<char, 4096> bytes;
  const ssize_t got = ::read(mpirun_.out.get(), bytes.data(), bytes.size());
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
  std::string text;
  if (got <= 0) {
    mpirun_.out.reset();
    text = mpirun_lines_.finish();
  } else {
    text = mpirun_lines_.add({bytes.data(), static_cast<std::size_t>(got)});
  }
  text = without_noise(text);
  const bool too_few_files = tells_of_too_few_files(text);
  write(err_, nullptr, std::move(text), {});
  if (too_few_files && !job_.all_started()) {
    say("the launcher may open too few files to start the ranks (raise ulimit -n: about 30, and a few for each rank of "
        "a host)");
    end_start();
  }
}

void Launcher::on_new_connection() {
  base::UniqueFd socket;
  for (socket = accept_from(listener_); socket; socket = accept_from(listener_)) {
    const auto strangers = std::count_if(connections_.begin(), connections_.end(),
                                         [](const auto& connection) { return connection->rank < 0; });
    if (strangers >= kStrangers + options_.ranks) continue;  // closes it
    auto connection = std::make_unique<Connection>();
    connection->socket = std::move(socket);
    connection->since = Clock::now();
    connections_.push_back(std::move(connection));
  }
  if (errno == EMFILE || errno == ENFILE) close_doors(errno);
}

// No more can be heard of than are here: those who wait outside would have us look again and again.
void Launcher::close_doors(int error) {
  const std::string why = error == EMFILE ? " (raise ulimit -Hn: one for each rank, and a few)" : "";
  say("cannot accept further ranks: " + std::string(std::strerror(error)) + why);
  listener_.socket.reset();
  end_start();
}

// Whoever has not started by now is not awaited any longer, and without him the others are ended.
void Launcher::end_start() {
  if (job_.all_started()) return;
  if (stage_ == Stage::running || stage_ == Stage::last_words) enter(Stage::asked, SIGTERM);
  job_.launcher_ended(Clock::now());
}

void Launcher::on_connection(Connection& connection) {
  send(connection, {});
  std::array<char, 64 * 1024> bytes;
  const ssize_t got = ::recv(connection.socket.get(), bytes.data(), bytes.size(), 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) {
    close(connection);
    return;
  }
  try {
    connection.reader.append({bytes.data(), static_cast<std::size_t>(got)});
    while (!connection.finished) {
      const auto message = connection.reader.next();
      if (!message) break;
      on_message(connection, *message);
    }
  } catch (const std::runtime_error&) {
    close(connection);  // a stranger, or nobody that we understand
  }
}

void Launcher::on_message(Connection& connection, const Message& message) {
  if (connection.rank < 0) {
    on_hello(connection, message);
  } else if (message.type == MessageType::output) {
    on_output(connection, message.body);
  } else if (message.type == MessageType::end) {
    const End end = decode_end(message.body);
    job_.ended(connection.rank, end, Clock::now());
    close(connection);
  } else {
    throw std::runtime_error("unexpected message");
  }
}

void Launcher::on_hello(Connection& connection, const Message& message) {
  if (message.type != MessageType::hello) throw std::runtime_error("the first message is not a hello");
  const Hello hello = decode_hello(message.body);
  if (!same_secret(hello.token, names_.token) || !job_.started(hello))
    throw std::runtime_error("unknown rank or token");
  connection.rank = hello.rank;
  const std::string prefix = options_.no_prefix ? "" : "[" + std::to_string(hello.rank) + "] ";
  connection.streams = {Stream{&out_, LineSplitter(prefix), {}}, Stream{&err_, LineSplitter(prefix), {}}};
  // Late for the news that everybody has got.
  if (stage_ == Stage::asked || stage_ == Stage::killed) send(connection, encode_number(MessageType::signal, SIGKILL));
}

void Launcher::on_output(Connection& connection, std::string_view body) {
  if (body.empty()) throw std::runtime_error("output without a stream");
  Stream& stream = connection.streams[body.front() == '1' ? 0 : 1];
  body.remove_prefix(1);
  std::string lines = stream.lines.add(body);
  if (!lines.empty()) stream.unfinished_since.reset();  // what is left is of another line
  if (stream.lines.has_unfinished() && !stream.unfinished_since) stream.unfinished_since = Clock::now();
  if (lines.empty()) {
    grant(connection.rank, cost_of(body.size()), nullptr);
  } else {
    write(stream, std::move(lines), {connection.rank, cost_of(body.size())});
  }
}

// Writes unfinished lines after kUnfinished. A line waits while earlier output is unwritten or bytes of its rank are
// unread, because `kolo run` or its reader may have been stopped. Its rank may wait for the grant of output that was
// just written, so grant() restarts the time.
void Launcher::pass_on_unfinished(Clock::time_point now) {
  for (const auto& connection : connections_) {
    pollfd more{connection->socket.get(), POLLIN, 0};
    for (Stream& stream : connection->streams) {
      if (!stream.unfinished_since || now < *stream.unfinished_since + kUnfinished) continue;
      if (!stream.output->empty() || (!connection->finished && ::poll(&more, 1, 0) > 0)) continue;
      stream.unfinished_since.reset();
      write(stream, stream.lines.take_unfinished(), {});
    }
  }
}

void Launcher::write(Stream& stream, std::string text, Output::Written written) {
  if (!text.empty()) write(*stream.output, &stream.lines, std::move(text), written);
}

// If another stream left an unfinished line, ends that line first, unless lines have no prefix. `from`: the stream that
// wrote the text; null: no rank wrote it.
void Launcher::write(Output& output, LineSplitter* from, std::string text, Output::Written written) {
  if (text.empty()) return;
  LineSplitter*& open = open_[one_file_ ? &out_ : &output];
  if (open != nullptr && open != from) {
    open->close_line();
    text.insert(0, "\n");
  }
  open = from != nullptr && from->is_open() && !options_.no_prefix ? from : nullptr;
  output.add(std::move(text), written);
}

// Nothing more will come from it.
void Launcher::close(Connection& connection) {
  connection.finished = true;
  if (connection.rank < 0) return;
  finish_streams(connection);
  const auto phase = job_.ranks()[static_cast<std::size_t>(connection.rank)].phase;
  if (phase == Job::Phase::running) job_.lost(connection.rank, Clock::now());
}

void Launcher::finish_streams(Connection& connection) {
  for (Stream& stream : connection.streams) {
    stream.unfinished_since.reset();
    write(stream, stream.lines.finish(), {});
  }
}

void Launcher::send(Connection& connection, std::string_view bytes) {
  connection.unsent += bytes;
  while (!connection.unsent.empty()) {
    const ssize_t gone =
        ::send(connection.socket.get(), connection.unsent.data(), connection.unsent.size(), MSG_NOSIGNAL);
    if (gone < 0) return;  // later, or the next receive finds out what is wrong
    connection.unsent.erase(0, static_cast<std::size_t>(gone));
  }
}

void Launcher::send_to_all(int signal) {
  for (const auto& connection : connections_) {
    if (connection->rank < 0 || connection->finished) continue;
    send(*connection, encode_number(MessageType::signal, static_cast<std::uint32_t>(signal)));
  }
}

// `output`: where output of the rank was written; null: it was only added to an unfinished line.
void Launcher::grant(int rank, std::size_t cost, const Output* output) {
  for (const auto& connection : connections_) {
    if (connection->rank != rank || connection->finished) continue;
    send(*connection, encode_number(MessageType::credit, static_cast<std::uint32_t>(cost)));
    for (Stream& stream : connection->streams) {
      if (stream.output == output && stream.unfinished_since) stream.unfinished_since = Clock::now();
    }
  }
}

void Launcher::write_output() {
  for (Output* output : {&out_, &err_}) {
    for (const auto& written : output->write_some()) {
      if (written.rank >= 0) grant(written.rank, written.cost, output);
    }
  }
}

// Whether something that ranks wrote could not be written, though there is a reader; said once.
bool Launcher::note_unwritable() {
  bool news = false;
  for (const Output* output : {&out_, &err_}) {
    const int error = output->error();
    const std::string name = output == &out_ ? "standard output" : "standard error";
    if (error == 0 || error == EPIPE || !unwritable_.insert(name).second) continue;
    news = true;
    job_.unwritable(name, error);
    say("cannot write " + name + ": " + std::strerror(error) + "; further output of the ranks to it is lost");
  }
  return news;
}

void Launcher::say(const std::string& line) { write(err_, nullptr, "kolo run: " + line + '\n', {}); }

// All ranks have ended. mpirun waits for ever for a daemon that is lost.
void Launcher::end_mpirun() {
  for (const auto& connection : connections_) finish_streams(*connection);
  open_.clear();
  connections_.clear();  // their supervisors wait for that
  stage_ = Stage::killed;
  auto deadline = Clock::now() + (job_.status() == 0 ? kMpirun : kMpirunAfterLoss);
  bool asked = false;
  while (!mpirun_ended_) {
    deadline_ = deadline;
    step();
    if (Clock::now() < deadline) continue;
    ::kill(mpirun_.pid, asked ? SIGKILL : SIGTERM);
    asked = true;
    deadline = Clock::now() + 1s;
  }
  deadline_.reset();
  while (mpirun_.out) {
    pollfd ready{mpirun_.out.get(), POLLIN, 0};
    if (::poll(&ready, 1, 0) <= 0) break;  // somebody whom mpirun has started holds it open
    on_mpirun_output();
  }
}

// Also waits for a reader who takes his time; a signal from the user ends that. Nobody waits long who wanted an end.
void Launcher::drain_output() {
  const auto end = Clock::now() + std::max(options_.grace, 100ms);
  write_output();
  while (!out_.empty() || !err_.empty()) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now());
    if (stopped_ && left <= 0ms) return;
    std::array<pollfd, 3> wait{{{signals_.get(), POLLIN, 0},
                                {out_.empty() ? -1 : out_.descriptor(), POLLOUT, 0},
                                {err_.empty() ? -1 : err_.descriptor(), POLLOUT, 0}}};
    if (::poll(wait.data(), wait.size(), stopped_ ? static_cast<int>(left.count()) : -1) < 0 && errno != EINTR) return;
    signalfd_siginfo info{};
    const bool signalled = wait[0].revents != 0 && ::read(signals_.get(), &info, sizeof info) > 0;
    if (signalled && is_for_an_end(static_cast<int>(info.ssi_signo))) return;
    write_output();
  }
}

}  // namespace kolo::tools
