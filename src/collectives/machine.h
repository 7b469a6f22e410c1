#pragma once
// What all operations in flight have in common: membership in their group's list, one error kept, and turns in a queue.
#include <chrono>

#include <cstdint>
#include <exception>
#include <memory>
#include <vector>

#include "base/call_limit.h"
#include "kolo/spi/communicator.h"
#include "telemetry/counters.h"
#include "transport/transport.h"

namespace kolo::collectives {

class Machine;

// What the operations of one communicator share. Externally synchronized, as the communicator is.
struct Group {
  transport::Transport* transport = nullptr;  // borrowed
  telemetry::Counters* counters = nullptr;    // borrowed; may be null
  std::vector<Machine*> pending;              // started and not complete, in the order of their start
  std::uint64_t started = 0;                  // operations, ever
  std::shared_ptr<base::CallLimit> calls;     // where a program calls them directly; null: the engine does
  std::exception_ptr ended;  // the first failure, or deadline that has passed: later operations throw it
  bool moved = false;        // set by operations on shared memory that got on; taken back by whoever asks

  [[nodiscard]] Rank rank() const { return transport->rank(); }
  [[nodiscard]] int size() const { return transport->size(); }
  // The number of the operation that begins now, or of an allocation, which counts as one. Throws what CallLimit says,
  // and what has ended the group.
  std::uint64_t begin();
  // An operation or allocation has failed. A UsageError ends nothing.
  void note_failure(const std::exception_ptr& error) noexcept;
  // Called by every advance() that did not complete: asks about once a millisecond whether all peers still live. True
  // if it has asked.
  bool look_after_peers();
  // Advances everything pending once. Errors stay with the operation that met them.
  void advance_all() noexcept;

 private:
  unsigned looks_ = 0;
  std::chrono::steady_clock::time_point last_look_{};
};

// An Operation that enters its group's list when made and leaves it when complete, failed or destroyed.
// The group is shared because an abandoned operation may outlive its communicator.
class Machine : public Operation {
 public:
  explicit Machine(std::shared_ptr<Group> group);
  ~Machine() override;
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  bool advance() final;
  [[nodiscard]] bool complete() const noexcept { return complete_; }
  // Operations of its group that were started before it.
  [[nodiscard]] std::uint64_t number() const noexcept { return number_; }

 protected:
  // One attempt; true once complete.
  virtual bool step() = 0;
  [[nodiscard]] Group& group() const noexcept { return *group_; }

 private:
  friend class TurnQueue;
  void leave() noexcept;
  void abandon() noexcept;
  void finish() noexcept;
  void fail(std::exception_ptr error) noexcept;

  std::shared_ptr<Group> group_;
  std::uint64_t number_;
  std::exception_ptr error_;
  bool complete_ = false;
};

class QueuedMachine;

// Operations that use the same memory take turns in the order in which they were started, which is the same on all
// ranks. Whoever advances any of them advances the first, so that they may be waited for in any order. When one fails,
// or is given up, the memory's counters no longer match the peers': those behind it fail too, and no other is let in.
class TurnQueue {
 public:
  void enter(QueuedMachine* machine);
  // Advances from the front up to `machine`; true when that is complete.
  bool run(QueuedMachine* machine);
  void leave(QueuedMachine* machine) noexcept;

 private:
  std::vector<QueuedMachine*> waiting_;
  bool abandoned_ = false;      // a started operation failed or was given up
  std::exception_ptr failure_;  // of the one that failed, if one has
};

class QueuedMachine : public Machine {
 public:
  // `queue` lives as long as `owner` does.
  QueuedMachine(std::shared_ptr<Group> group, std::shared_ptr<void> owner, TurnQueue& queue);
  ~QueuedMachine() override;

 protected:
  friend class TurnQueue;
  bool step() final { return queue_.run(this); }
  // step(), once it is this operation's turn.
  virtual bool turn() = 0;

 private:
  std::shared_ptr<void> owner_;  // keeps the shared mapping alive under an operation whose buffer was destroyed
  TurnQueue& queue_;
};

}  // namespace kolo::collectives
