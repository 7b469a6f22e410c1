#include "cluster/monitor.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/deadline.h"
#include "base/start_thread.h"
#include "base/strings.h"
#include "kolo/error.h"

namespace kolo::cluster {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::milliseconds kBeat = 1s;
constexpr int kBeatsOfSilence = 5;   // at least so many signs of life are missing before a rank counts as silent
constexpr int kEnding = 20;          // milliseconds: how long after its connections a process ends
constexpr auto kGoodbyeWay = 250ms;  // how long the goodbye of a process that has ended may be on its way here
constexpr auto kWordsWay = 5s;       // the same for word of a loss that others know of
constexpr auto kFarewell = 500ms;    // how long a goodbye may take to leave
constexpr std::size_t kQuestionsKept = 64;
constexpr std::size_t kFewEntries = 128;          // of poll()
constexpr std::chrono::microseconds kAnEntry{5};  // what one of many adds to the time between two looks
constexpr std::chrono::microseconds kLongestGathering{50000};

std::vector<PeerProcess> processes_of_host(const MonitorWorld& world) {
  std::vector<PeerProcess> processes(world.hosts.size());
  for (std::size_t r = 0; r < processes.size(); ++r) {
    if (world.hosts[r] != world.hosts[static_cast<std::size_t>(world.rank)]) continue;
    processes[r] = PeerProcess(static_cast<Rank>(r), world.pids[r]);
  }
  return processes;
}

std::vector<Rank> watched(const std::vector<PeerProcess>& processes) {
  std::vector<Rank> ranks;
  for (std::size_t r = 0; r < processes.size(); ++r) {
    if (processes[r].descriptor() >= 0) ranks.push_back(static_cast<Rank>(r));
  }
  return ranks;
}

std::chrono::milliseconds beat_of(std::chrono::milliseconds silence) {
  return silence.count() == 0 ? kBeat : std::min(kBeat, silence / kBeatsOfSilence);
}

// A host that is there takes a call at once; one that is not should not take longer than a silence. The rank itself may
// be stopped, and has the time of a silence to answer.
LinksParts with_times(LinksParts links, std::chrono::milliseconds silence) {
  if (silence.count() > 0) links.call_time = std::clamp<std::chrono::milliseconds>(silence, 1s, links.call_time);
  links.greeting_time = silence.count() > 0 ? std::max<std::chrono::milliseconds>(silence, 1s) : 0ms;
  return links;
}

// Well below what others wait for a sign, or for an answer to a call.
std::chrono::milliseconds absence_of(std::chrono::milliseconds silence) {
  return silence.count() == 0 ? 2000ms : std::clamp<std::chrono::milliseconds>(silence / 4, 25ms, 2000ms);
}

}  // namespace

Monitor::Monitor(MonitorParts parts, std::chrono::milliseconds timeout)
    : parts_(std::move(parts)),
      tree_(parts_.world.hosts),
      neighbours_(tree_.neighbours(parts_.world.rank)),
      absence_(absence_of(parts_.silence)),
      beat_(beat_of(parts_.silence)),
      bell_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      processes_(processes_of_host(parts_.world)),
      watched_(watched(processes_)),
      links_(with_times(std::move(parts_.world.links), parts_.silence), *this),
      membership_({parts_.world.rank, parts_.world.hosts, neighbours_}, *this) {
  if (!bell_) throw BackendError("monitor: eventfd failed");
  if (!tree_.is_root(self())) links_.call(tree_.parent(self()));
  next_beat_ = planned_ = Clock::now();
  thread_ = base::start_thread("the monitor", [this] { run(); });
  try {
    wait_for_neighbours(timeout);
  } catch (...) {
    stop();
    throw;
  }
}

Monitor::~Monitor() { stop(); }

void Monitor::wait_for_neighbours(std::chrono::milliseconds timeout) {
  std::unique_lock lock(lock_);
  const auto broken = [this] { return outside_.fate != Fate::whole || !outside_.ended.empty(); };
  const auto over = [&] { return outside_.connected || broken(); };
  const bool in_time = told_.wait_for(lock, timeout, over);
  if (broken()) liveness_.require_whole();
  if (!in_time) {
    throw TimeoutError(neighbours_, "rank " + std::to_string(self()) + ": the monitor did not connect to all of " +
                                        base::ranks_text(neighbours_) + " within " + std::to_string(timeout.count()) +
                                        " ms. Choose a network with KOLO_INTERFACE, or set KOLO_MONITOR=off");
  }
}

void Monitor::stop() noexcept {
  {
    const std::lock_guard lock(lock_);
    stopping_ = true;
  }
  const std::uint64_t one = 1;
  static_cast<void>(!write(bell_.get(), &one, sizeof one));
  if (thread_.joinable()) thread_.join();
}

void Monitor::post(std::function<void()> command) {
  {
    const std::lock_guard lock(lock_);
    commands_.push_back(std::move(command));
  }
  const std::uint64_t one = 1;
  static_cast<void>(!write(bell_.get(), &one, sizeof one));  // full: it rings already
}

Agreement Monitor::survivors(std::chrono::milliseconds timeout, std::optional<Rank> known_lost) {
  std::uint64_t look = 0;
  {
    const std::lock_guard lock(lock_);
    if (stopping_) return outside_.agreement;
    look = looks_ + 1;
  }
  // A death that the caller knows of through shared memory must be known here too.
  post([this] {
    for (Rank rank = 0; index(rank) < processes_.size(); ++rank) look_at_process(rank);
    const std::lock_guard lock(lock_);
    ++looks_;
    changed_ = true;
  });
  std::unique_lock lock(lock_);
  if (known_lost) {
    told_.wait_for(lock, std::min<std::chrono::milliseconds>(timeout, kWordsWay), [&] {
      return outside_.out() || std::ranges::count(outside_.lost, *known_lost) > 0 ||
             std::ranges::count(outside_.left, *known_lost) > 0;
    });
  }
  const auto ready = [&] {
    return !outside_.ended.empty() || (looks_ >= look && !outside_.in_doubt && outside_.fate != Fate::agreeing);
  };
  if (!told_.wait_for(lock, timeout, ready)) {
    throw TimeoutError(outside_.awaited, "survivors(): no answer within " + std::to_string(timeout.count()) +
                                             " ms from " + base::ranks_text(outside_.awaited));
  }
  if (outside_.out()) throw_fate();
  return outside_.agreement;
}

void Monitor::gather(const Agreement& agreement, std::chrono::milliseconds timeout) {
  post([this, epoch = agreement.epoch] { membership_.arrive(epoch); });
  std::unique_lock lock(lock_);
  const auto gone_from = [&](const std::vector<Rank>& ranks) {
    return std::ranges::find_first_of(ranks, agreement.members) != ranks.end();
  };
  const auto over = [&] {
    return outside_.together >= agreement.epoch || outside_.out() || gone_from(outside_.lost) ||
           gone_from(outside_.left);
  };
  if (!told_.wait_for(lock, timeout, over)) {
    throw TimeoutError({}, "create_over_survivors(): not all of " + base::ranks_text(agreement.members) +
                               " called it within " + std::to_string(timeout.count()) + " ms");
  }
  if (outside_.out()) throw_fate();
  const bool all_came = outside_.together >= agreement.epoch;
  auto left = outside_.left;
  std::erase_if(left, [&](Rank rank) { return !std::ranges::binary_search(agreement.members, rank); });
  lock.unlock();
  require_members(agreement);
  if (!all_came && !left.empty()) {
    throw PeerLostError(left.front(),
                        "create_over_survivors(): " + base::ranks_text(left) + " shut down meanwhile. Call it again");
  }
}

void Monitor::require_members(const Agreement& agreement) const {
  const std::lock_guard lock(lock_);
  for (const Rank rank : outside_.lost) {
    if (!std::ranges::binary_search(agreement.members, rank)) continue;
    throw PeerLostError(rank, "create_over_survivors(): rank " + std::to_string(rank) + " was lost too. Call it again");
  }
}

// This rank may not go on. lock_ held.
void Monitor::throw_fate() const {
  if (!outside_.ended.empty()) throw PeerLostError(self(), outside_.ended);
  if (outside_.fate == Fate::excluded) {
    throw PeerLostError(self(),
                        "rank " + std::to_string(self()) + ": the other ranks have excluded this rank, which must end");
  }
  throw PeerLostError(
      outside_.lost.empty() ? self() : outside_.lost.front(),
      "the ranks that are left here are no majority. The other ranks may continue elsewhere, so this rank "
      "must end");
}

std::uint64_t Monitor::ask(const std::vector<Rank>& ranks, const std::string& operation) {
  std::uint64_t number = 0;
  {
    const std::lock_guard lock(lock_);
    number = ++questions_;
    answers_[number];
    if (answers_.size() > kQuestionsKept) answers_.erase(answers_.begin());
  }
  post([this, ranks, operation, number] {
    for (const Rank rank : ranks) {
      if (rank != self()) pass_on(Question{self(), rank, number, operation});
    }
  });
  return number;
}

std::map<Rank, Doing> Monitor::answers(std::uint64_t question) const {
  const std::lock_guard lock(lock_);
  const auto found = answers_.find(question);
  return found == answers_.end() ? std::map<Rank, Doing>{} : found->second;
}

void Monitor::run() noexcept {
  try {
    for (;;) {
      turn();
      const std::lock_guard lock(lock_);
      if (stopping_) break;
    }
    farewell();
  } catch (const std::exception& error) {  // memory or descriptors ran out: the others see the connections close
    const std::string text = "rank " + std::to_string(self()) + ": the monitor has ended: " + error.what();
    parts_.log(LogLevel::error, text);
    liveness_.report_loss(self(), text);
    {
      const std::lock_guard lock(lock_);
      outside_.ended = text;
    }
    told_.notify_all();
    parts_.wake();
    links_.close_all();
  }
}

void Monitor::turn() {
  wait();
  const auto awake = Clock::now();
  run_commands();
  links_.tick();
  look_at_processes();
  if (Clock::now() >= next_beat_) {
    next_beat_ = Clock::now() + beat_;
    links_.beat();
    const auto away = Clock::now() - awake;  // stopped between two looks: what came meanwhile has not been read
    if (away > beat_) {
      links_.forgive(away);
    } else {
      look_at_silence();
    }
  }
  publish();
}

// Who leads an agreement is connected to all, and each of them says something once a second: a look at thousands for
// each would be a core's work. (Those with few connections are not kept.)
std::chrono::microseconds Monitor::gathering() const {
  const std::size_t many = entries_.size() > kFewEntries ? entries_.size() : 0;
  return std::min<std::chrono::microseconds>({many * kAnEntry, kLongestGathering, beat_ / 4});
}

void Monitor::wait() {
  if (const auto while_they_come = gathering(); while_they_come.count() > 0)
    std::this_thread::sleep_for(while_they_come);
  entries_.assign(1, {bell_.get(), POLLIN, 0});
  polled_processes_.clear();
  for (const Rank rank : watched_) {
    const auto& process = processes_[index(rank)];
    const bool of_interest = membership_.is_lost(rank) || links_.connected(rank);
    if (!of_interest || ended_.contains(rank)) continue;
    if (membership_.condition(rank) >= Condition::dead) continue;
    entries_.push_back({process.descriptor(), POLLIN, 0});
    polled_processes_.push_back(rank);
  }
  const std::size_t first_link = entries_.size();
  links_.add_to(entries_);
  planned_ = next_time();
  const auto pause = std::chrono::ceil<std::chrono::milliseconds>(planned_ - Clock::now());
  poll(entries_.data(), entries_.size(), static_cast<int>(std::max<std::int64_t>(pause.count(), 0)));
  const auto late = Clock::now() - planned_;
  if (late > beat_) links_.forgive(late);
  if (late > absence_) membership_.doubt();
  links_.handle(std::span(entries_).subspan(first_link));
}

Monitor::Clock::time_point Monitor::next_time() const {
  auto next = std::min(next_beat_, links_.next_time());
  for (const auto& [rank, since] : ended_) next = std::min(next, since + kGoodbyeWay);
  return next;
}

void Monitor::run_commands() {
  std::uint64_t count = 0;
  static_cast<void>(!read(bell_.get(), &count, sizeof count));
  std::vector<std::function<void()>> commands;
  {
    const std::lock_guard lock(lock_);
    commands.swap(commands_);
  }
  for (const auto& command : commands) command();
}

void Monitor::look_at_processes() {
  for (std::size_t i = 0; i < polled_processes_.size(); ++i) {
    if (entries_[1 + i].revents != 0) look_at_process(polled_processes_[i]);
  }
  for (auto entry = ended_.begin(); entry != ended_.end();) {
    const auto [rank, since] = *entry;
    const bool known = membership_.gone(rank);
    if (!known && Clock::now() < since + kGoodbyeWay) {
      ++entry;
      continue;
    }
    entry = ended_.erase(entry);
    membership_.observe(rank, Condition::dead);
  }
}

// A process that ends first closes its connections: what it said last is in them, or with those who pass it on.
void Monitor::look_at_process(Rank rank) {
  if (!processes_[index(rank)].dead() || membership_.condition(rank) >= Condition::dead) return;
  if (membership_.is_lost(rank)) {
    membership_.observe(rank, Condition::dead);
  } else if (ended_.try_emplace(rank, Clock::now()).second) {
    changed_ = true;
  }
}

void Monitor::look_at_silence() {
  if (parts_.silence.count() == 0) return;
  const auto now = Clock::now();
  for (const Rank rank : links_.connected_ranks()) {
    if (membership_.gone(rank)) continue;
    const auto silent = now - links_.heard(rank);
    if (silent > parts_.silence / 2) membership_.doubt();
    if (silent > parts_.silence) membership_.observe(rank, Condition::unresponsive);
  }
}

void Monitor::publish() {
  const bool connected = std::ranges::all_of(neighbours_, [this](Rank rank) { return links_.connected(rank); });
  {
    const std::lock_guard lock(lock_);
    if (!changed_ && connected == outside_.connected) return;
    changed_ = false;
    outside_.fate = membership_.fate();
    outside_.agreement = membership_.agreement();
    outside_.awaited = membership_.awaited();
    if (membership_.everybody_has_come(outside_.agreement.epoch)) outside_.together = outside_.agreement.epoch;
    outside_.connected = connected || outside_.connected;
    outside_.in_doubt = !ended_.empty();
    outside_.lost = lost_;
    outside_.left.clear();
    for (Rank rank = 0; index(rank) < processes_.size(); ++rank) {
      if (membership_.condition(rank) == Condition::left) outside_.left.push_back(rank);
    }
  }
  told_.notify_all();
}

void Monitor::farewell() {
  links_.say_goodbye();
  const base::Deadline deadline(kFarewell);
  while (!links_.all_sent() && !deadline.passed()) {
    entries_.clear();
    links_.add_to(entries_);
    poll(entries_.data(), entries_.size(), 10);
    links_.handle(entries_);
  }
  links_.close_all();
}

void Monitor::received(Rank from, Message message) {
  if (std::holds_alternative<Beat>(message)) return;
  if (std::holds_alternative<Goodbye>(message)) {
    ended_.erase(from);
    membership_.observe(from, Condition::left);
  } else if (const auto* question = std::get_if<Question>(&message)) {
    pass_on(*question);
  } else if (auto* reply = std::get_if<Reply>(&message)) {
    pass_on(std::move(*reply));
  } else {
    membership_.receive(from, message);
  }
}

void Monitor::closed(Rank rank, bool whole) {
  // Reset: by its host, because the process ended with something unread, or by something in between.
  if (!whole && !of_this_host(rank)) links_.probe(rank);
  if (membership_.condition(rank) >= Condition::unreachable) return;
  const bool seen = ended_.erase(rank) > 0 || processes_[index(rank)].dies_within(kEnding);
  membership_.observe(rank, seen ? Condition::dead : Condition::unreachable);
}

void Monitor::refused(Rank rank, bool at_once) {
  if (!at_once) membership_.doubt();
  membership_.refused(rank);
  membership_.probed(rank);
}

void Monitor::failed(Rank rank, bool silent) {
  membership_.doubt();
  if (membership_.gone(rank)) {
    membership_.probed(rank);
  } else {
    membership_.observe(rank, silent ? Condition::unresponsive : Condition::unreachable);
  }
}

void Monitor::out_of_sockets(Rank rank, const std::string& why) {
  parts_.log(LogLevel::warn,
             "monitor: no socket for rank " + std::to_string(rank) + ": " + why + "; retrying. Raise `ulimit -n`");
}

void Monitor::send(Rank to, const Message& message) {
  if (membership_.gone(to) && !links_.connected(to)) return;
  links_.send(to, message);
}

void Monitor::lost(Rank rank, Condition condition, Rank heard_from) {
  std::string text = "rank " + std::to_string(rank) + " on " + host_name(rank);
  if (rank == self()) {
    text = "the other ranks have excluded this rank, which must end: " + text + " did not answer in time";
  } else if (condition == Condition::dead) {
    // Of another host: that it says so is all that is known, perhaps before a goodbye that is on its way.
    text += (of_this_host(rank) ? " died (process " : " has ended (process ") +
            std::to_string(parts_.world.pids[index(rank)]) + ")";
  } else if (condition == Condition::unresponsive) {
    text += " has not answered for " + std::to_string(parts_.silence.count()) + " ms";
  } else {
    text += " is lost: its connection broke. Its process, its host or the network has failed";
  }
  lost_.push_back(rank);
  liveness_.report_loss(rank, text);
  // In the log of those who have seen it, and of the first that lives: a world of thousands has enough to say.
  const bool tells = heard_from == self() || rank == self() || membership_.leads();
  parts_.log(tells ? LogLevel::warn : LogLevel::debug, "monitor: " + text);
  parts_.wake();
}

void Monitor::fence(Rank rank) {
  const bool done = processes_[index(rank)].end();
  parts_.log(LogLevel::warn,
             "monitor: excluded rank=" + std::to_string(rank) + " process_killed=" + (done ? "yes" : "no"));
}

void Monitor::probe(Rank rank) { links_.probe(rank); }

void Monitor::pass_on(const Question& question) {
  const auto size = processes_.size();
  if (index(question.to) >= size || index(question.from) >= size) return;
  if (question.to == self()) {
    auto [waits, text] = parts_.describe(question.operation);
    pass_on(Reply{self(), question.from, question.number, waits, std::move(text)});
    return;
  }
  const Rank next = tree_.next_hop(self(), question.to);
  if (links_.connected(next)) links_.send(next, question);
}

void Monitor::pass_on(Reply reply) {
  if (index(reply.to) >= processes_.size() || index(reply.from) >= processes_.size()) return;
  if (reply.to == self()) {
    const std::lock_guard lock(lock_);
    const auto found = answers_.find(reply.number);
    if (found != answers_.end()) found->second[reply.from] = {reply.waits, std::move(reply.doing)};
    return;
  }
  const Rank next = tree_.next_hop(self(), reply.to);
  if (links_.connected(next)) links_.send(next, reply);
}

}  // namespace kolo::cluster
