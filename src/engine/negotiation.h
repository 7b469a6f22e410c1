#pragma once
// One rank's part in the named channel, as a state machine: submissions and messages in, messages and events out. No
// threads, no time, no input or output of its own. docs/protocol.md, "The named channel".
//
//   submit() ----+                                   +--> send() to a neighbour in the tree
//   cancel() ----+--> Negotiation (one per rank) ----+--> execute(): the next item of the list, the same on all ranks
//   receive() ---+                                   +--> withdrawn(), failed(), ended()
//
// What the root announces (an item, a withdrawn name, a failure) reaches all ranks in one order, because links are
// first in, first out. The epoch counts announcements after which earlier submissions are void: a child's entry that
// was sent before the child had heard of one is recognised by its epoch and dropped.
#include <atomic>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/matcher.h"
#include "engine/messages.h"

namespace kolo::engine {

// Under such names ranks say that they have heard of a failure; no request may have one.
inline constexpr std::string_view kHeardPrefix = "failures/";

// What a negotiation does to the world around it. Called in the order in which it must happen.
class NegotiationHost {
 public:
  virtual ~NegotiationHost() = default;
  virtual void send(Rank to, const Envelope& envelope) = 0;
  // `depth`: control messages on the longest chain that led to this item.
  virtual void execute(const Item& item, std::uint32_t depth) = 0;
  // A deadline passed before everyone had submitted: whoever has it pending gets an error, and the name is free.
  virtual void withdrawn(const Withdrawal& withdrawal) = 0;
  // Training code threw: named operations that are not listed are errors; gradient rounds end in their own way.
  virtual void failed(const Fatal& failure) = 0;
  // All ranks have been told of the failure that began this epoch, and of those before.
  virtual void heard_by_all(std::uint64_t epoch) = 0;
  // Nothing can be negotiated any more.
  virtual void ended(const Fatal& fatal) = 0;
};

// Externally synchronized but for epoch().
class Negotiation {
 public:
  Negotiation(Tree tree, std::size_t fusion_bytes, NegotiationHost& host)
      : tree_(tree), fusion_bytes_(fusion_bytes), host_(host), matcher_(tree) {}

  // REQUIRES: nothing of that name is pending here.
  void submit(Entry entry);
  // Throws DamagedMessage for what no neighbour may say; nothing has changed then.
  void receive(Rank from, Envelope envelope);
  // Passes on what the subtree has agreed on: to the parent, or, at the root, to everyone as a list. True if any.
  bool relay();
  // The deadline of this rank's own submission has passed. The answer is execute() or withdrawn(), in order.
  void cancel(const std::string& name);
  // Tells the parent which ranks below it keep `name` waiting, so that others can name them.
  void report(const std::string& name);
  // Training code threw on this rank. The answer is failed(), in order.
  void fail(const Fatal& failure);
  // The group ends; the neighbours hear of it, but the one it was heard from. Only the first call counts.
  void end(const Fatal& fatal, Rank heard_from);

  // Who has not submitted `name`, as far as this rank knows: exact for itself and for what its children reported.
  [[nodiscard]] std::vector<Rank> missing(const std::string& name) const { return matcher_.missing(name); }
  // Waiting for this rank's own submission.
  [[nodiscard]] std::vector<std::string> awaited() const { return matcher_.names_without_own(); }
  [[nodiscard]] const Tree& tree() const noexcept { return tree_; }
  [[nodiscard]] std::uint64_t next_sequence() const noexcept { return next_sequence_; }
  [[nodiscard]] std::uint64_t epoch() const noexcept { return epoch_.load(); }  // thread-safe
  [[nodiscard]] bool has_ended() const noexcept { return ended_; }

 private:
  void receive_from_parent(Envelope envelope);
  void receive_from_child(Rank child, Envelope envelope);
  void take_report(Rank child, Report report);
  // Whether something that was sent at `epoch` about this name ended with a later announcement.
  [[nodiscard]] bool over(const std::string& name, std::uint64_t epoch) const;
  void send_up(Envelope envelope);
  void send_report(Report report);
  void send_down(const Envelope& envelope);
  void announce(const Envelope& envelope);
  void withdraw(const std::string& name);
  void apply(const Envelope& envelope);
  void apply_failure(const Fatal& failure);

  Tree tree_;
  std::size_t fusion_bytes_;
  NegotiationHost& host_;
  Matcher matcher_;
  std::atomic<std::uint64_t> epoch_{0};
  std::uint64_t failed_at_ = 0;                        // epoch of the last failure
  std::map<std::string, std::uint64_t> withdrawn_at_;  // by name: epoch of its last withdrawal
  std::uint64_t next_sequence_ = 0;
  std::uint32_t depth_ = 0;
  bool ended_ = false;
};

}  // namespace kolo::engine
