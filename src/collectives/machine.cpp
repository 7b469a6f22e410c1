#include "collectives/machine.h"

#include <algorithm>
#include <utility>

#include "kolo/error.h"

namespace kolo::collectives {

std::uint64_t Group::begin() {
  if (ended) std::rethrow_exception(ended);
  if (calls) calls->begin();
  return started++;
}

void Group::note_failure(const std::exception_ptr& error) noexcept {
  if (ended) return;
  try {
    std::rethrow_exception(error);
  } catch (const UsageError&) {  // the caller's mistake
  } catch (...) {
    ended = error;
  }
}

bool Group::look_after_peers() {
  constexpr unsigned kLooksPerClock = 16;  // reading the clock costs more than looking at a flag
  if (++looks_ % kLooksPerClock != 0) return false;
  const auto now = std::chrono::steady_clock::now();
  if (now - last_look_ < std::chrono::milliseconds(1)) return false;
  last_look_ = now;
  transport->check_peers();
  return true;
}

void Group::advance_all() noexcept {
  const std::vector<Machine*> snapshot = pending;  // a completed one leaves the list
  for (Machine* machine : snapshot) {
    if (std::find(pending.begin(), pending.end(), machine) == pending.end()) continue;
    try {
      machine->advance();
    } catch (...) {  // kept by the machine, rethrown by its own advance()
    }
  }
}

Machine::Machine(std::shared_ptr<Group> group) : group_(std::move(group)), number_(group_->begin()) {
  group_->pending.push_back(this);
}

Machine::~Machine() {
  if (!complete_ && !error_) abandon();
  leave();
}

void Machine::leave() noexcept {
  auto& pending = group_->pending;
  const auto found = std::find(pending.rbegin(), pending.rend(), this);
  if (found != pending.rend()) pending.erase(std::next(found).base());
}

void Machine::abandon() noexcept {
  if (group_->calls) group_->calls->abandon(number_);
}

void Machine::finish() noexcept {
  complete_ = true;
  leave();
}

void Machine::fail(std::exception_ptr error) noexcept {
  error_ = std::move(error);
  group_->note_failure(error_);
  abandon();
  leave();
}

bool Machine::advance() {
  if (complete_) return true;
  if (error_) std::rethrow_exception(error_);
  try {
    if (step()) {
      if (!complete_) finish();
      return true;
    }
    if (group_->look_after_peers() && group_->calls) group_->calls->check(number_);
    return false;
  } catch (...) {
    fail(std::current_exception());
    throw;
  }
}

void TurnQueue::enter(QueuedMachine* machine) {
  if (failure_) std::rethrow_exception(failure_);
  if (abandoned_) {
    throw UsageError("an operation on this memory was destroyed before it was complete, so the group has ended");
  }
  waiting_.push_back(machine);
}

bool TurnQueue::run(QueuedMachine* machine) {
  if (failure_) std::rethrow_exception(failure_);
  if (abandoned_) throw UsageError("an earlier operation on the same memory was destroyed before it was complete");
  while (!waiting_.empty()) {
    QueuedMachine* front = waiting_.front();
    try {
      if (front->error_) std::rethrow_exception(front->error_);  // it failed outside its turn
      if (!front->turn()) return false;
    } catch (...) {
      failure_ = std::current_exception();
      front->fail(failure_);
      leave(front);
      throw;
    }
    waiting_.erase(waiting_.begin());
    front->finish();
    if (front == machine) return true;
  }
  return machine->complete();
}

void TurnQueue::leave(QueuedMachine* machine) noexcept {
  const auto found = std::find(waiting_.begin(), waiting_.end(), machine);
  if (found == waiting_.end()) return;
  waiting_.erase(found);
  abandoned_ = true;
  if (!failure_) failure_ = machine->error_;
}

QueuedMachine::QueuedMachine(std::shared_ptr<Group> group, std::shared_ptr<void> owner, TurnQueue& queue)
    : Machine(std::move(group)), owner_(std::move(owner)), queue_(queue) {
  queue_.enter(this);
}

QueuedMachine::~QueuedMachine() { queue_.leave(this); }

}  // namespace kolo::collectives
