// Who keeps an operation waiting, and what those ranks are doing instead: asked of them when a wait has become a stall,
// and told to ranks that ask this one.
#include <algorithm>
#include <chrono>
#include <thread>

#include "base/strings.h"
#include "engine/engine_impl.h"

namespace kolo::engine {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostAsked = 64;    // of a world: in larger ones only those who are known to be waited for
constexpr std::size_t kMostOfThese = 16;  // and of them the first
constexpr int kLooks = 20;                // at a lock that is only held for short
constexpr auto kBetweenLooks = 500us;
constexpr auto kAnswerTime = 3s;  // usually some milliseconds, but the machine may be busy

std::string seconds_text(Clock::duration duration) {
  const auto tenths = std::chrono::duration_cast<std::chrono::milliseconds>(duration).count() / 100;
  return std::to_string(tenths / 10) + '.' + std::to_string(tenths % 10) + " s";
}

// Somebody who asks must not wait for this rank's locks.
std::unique_lock<std::mutex> look(std::mutex& mutex) {
  std::unique_lock lock(mutex, std::try_to_lock);
  for (int i = 0; !lock.owns_lock() && i < kLooks; ++i) {
    std::this_thread::sleep_for(kBetweenLooks);
    static_cast<void>(lock.try_lock());
  }
  return lock;
}

}  // namespace

void EngineImpl::note_change_of_place() { changed_place_.store(Clock::now().time_since_epoch().count()); }

Activity EngineImpl::activity(const std::string& operation) {
  Activity result;
  {
    const auto lock = look(queue_lock_);
    if (lock.owns_lock() && !operation.empty()) {
      result.text = names_.contains(operation) ? "has submitted it; " : "has not submitted it; ";
    }
  }
  const auto since = Clock::now().time_since_epoch() - Clock::duration(changed_place_.load());
  result.waits = waiters_.load() > 0;
  if (!result.waits) {
    result.text += "in the program's code for " + seconds_text(since);
    return result;
  }
  result.text += "waiting in kolo for " + seconds_text(since);
  askers_.fetch_add(1);
  const auto lock = look(progress_lock_);
  askers_.fetch_sub(1);
  if (lock.owns_lock()) result.text += waits_at();
  return result;
}

// Progress lock held: at what, and for whom.
std::string EngineImpl::waits_at() {
  if (awaited_ != nullptr) return " at " + (*awaited_)().text;
  if (plan_turn_ && plan_turn_->under_way())
    return " at a new plan, for " + base::ranks_text(plan_turn_->waiting_for());
  if (executor_.oldest()) return " at an operation in flight, for " + base::ranks_text(executor_.waiting_for());
  if (submitted_.empty()) return {};
  const auto& [name, submission] =
      *std::ranges::min_element(submitted_, {}, [](const auto& row) { return row.second.since; });
  const auto missing = negotiation_.missing(name);
  return " at '" + name + "'" + (missing.empty() ? "" : " for " + base::ranks_text(missing));
}

// Those who are known to be waited for, or, where that is nobody or only the next of a chain, everybody.
Stall EngineImpl::ask_about(const std::string& operation, std::vector<Rank> named, bool chain) {
  Stall stall{0, Clock::now(), named, std::move(named)};
  const int size = parts_.placement.size;
  if (parts_.inquiry == nullptr) return stall;
  if (stall.asked.size() > kMostOfThese) stall.asked.resize(kMostOfThese);
  if ((stall.asked.empty() || chain) && static_cast<std::size_t>(size) <= kMostAsked) {
    stall.asked.clear();
    for (Rank other = 0; other < size; ++other) {
      if (other != rank()) stall.asked.push_back(other);
    }
  }
  std::erase(stall.asked, rank());
  if (!stall.asked.empty()) stall.question = parts_.inquiry->ask(stall.asked, operation);
  return stall;
}

bool EngineImpl::answered(const Stall& stall) const {
  if (stall.question == 0 || Clock::now() - stall.since > kAnswerTime) return true;
  return parts_.inquiry->answers(stall.question).size() == stall.asked.size();
}

// "; rank 3 (host h1): alive, has not submitted it; in the program's code for 61.0 s". Ranks that wait themselves are
// left out if another rank is the cause.
std::string EngineImpl::what_they_say(const Stall& stall) const {
  if (stall.question == 0) return {};
  const auto answers = parts_.inquiry->answers(stall.question);
  const auto answer_of = [&](Rank rank) { return std::ranges::find(answers, rank, &StallInquiry::Answer::rank); };
  const auto causes = [&](Rank rank) {
    const auto found = answer_of(rank);
    return found == answers.end() || !found->activity.waits;
  };
  const bool somebody = std::ranges::any_of(stall.asked, causes);
  std::string text;
  for (const Rank rank : stall.asked) {
    const bool named = std::ranges::find(stall.named, rank) != stall.named.end();
    if (somebody ? !causes(rank) : !named) continue;
    const auto found = answer_of(rank);
    text += "; rank " + std::to_string(rank) + " (host " + parts_.inquiry->host(rank) + "): ";
    text += found == answers.end() ? "does not answer" : "alive, " + found->activity.text;
  }
  return text;
}

// A round that stalls is reported once; then it is waited for as before.
bool EngineImpl::drive_with_warning(const std::function<bool()>& done, const std::function<Awaited()>& awaited) {
  const auto limit = round_timeout_.load();
  const auto patience = parts_.config->stall_warning;
  {
    const std::scoped_lock lock(progress_lock_);
    awaited_ = &awaited;
  }
  bool in_time = false;
  if (patience.count() == 0 || patience >= limit) {
    in_time = drive_until(done, limit);
  } else if (!(in_time = drive_until(done, patience))) {
    Stall stall;
    std::string what;
    {
      const std::scoped_lock lock(progress_lock_);
      auto [ranks, text] = awaited();
      what = std::move(text);
      stall = ask_about({}, std::move(ranks), true);
    }
    in_time = drive_until([&] { return done() || answered(stall); }, kAnswerTime) && done();
    if (!in_time) {
      parts_.log(LogLevel::warn,
                 "stall: waited_ms=" + std::to_string(patience.count()) + ": " + what + what_they_say(stall));
      in_time = drive_until(done, limit - patience);
    }
  }
  const std::scoped_lock lock(progress_lock_);
  awaited_ = nullptr;
  return in_time;
}

}  // namespace kolo::engine
