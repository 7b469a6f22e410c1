#include "engine/negotiation.h"

#include <algorithm>
#include <utility>

#include "engine/message_check.h"
#include "engine/ready_list.h"
#include "kolo/error.h"

namespace kolo::engine {
namespace {

std::string heard_name(std::uint64_t epoch) { return std::string(kHeardPrefix) + std::to_string(epoch); }

}  // namespace

void Negotiation::submit(Entry entry) { matcher_.add_own(std::move(entry)); }

void Negotiation::receive(Rank from, Envelope envelope) {
  if (ended_) return;
  check(envelope, tree_, from);
  if (envelope.fatal) {
    end(*envelope.fatal, from);
  } else if (!tree_.is_root() && from == tree_.parent()) {
    receive_from_parent(std::move(envelope));
  } else {
    receive_from_child(from, std::move(envelope));
  }
}

void Negotiation::receive_from_parent(Envelope envelope) {
  ++envelope.depth;
  depth_ = envelope.depth;
  send_down(envelope);
  apply(envelope);
}

void Negotiation::receive_from_child(Rank child, Envelope envelope) {
  if (envelope.failure) fail(*envelope.failure);
  for (auto& report : envelope.reports) {
    if (!over(report.name, envelope.epoch)) take_report(child, std::move(report));
  }
  depth_ = std::max(depth_, envelope.depth + 1);
  for (auto& entry : envelope.entries) {
    // Gradient rounds end in their own way.
    const bool named = entry.signature.kind != Kind::gradient_round;
    if (!named || !over(entry.name, envelope.epoch)) matcher_.add_from_child(child, std::move(entry));
  }
}

bool Negotiation::over(const std::string& name, std::uint64_t epoch) const {
  const auto withdrawn = withdrawn_at_.find(name);
  return epoch < failed_at_ || (withdrawn != withdrawn_at_.end() && epoch < withdrawn->second);
}

bool Negotiation::relay() {
  auto entries = matcher_.take_ready();
  if (entries.empty()) return false;
  Envelope envelope;
  envelope.depth = std::exchange(depth_, 0);
  if (tree_.is_root()) {
    envelope.items = make_ready_list(entries, fusion_bytes_, tree_.size, next_sequence_);
    announce(envelope);
  } else {
    envelope.entries = std::move(entries);
    send_up(std::move(envelope));
  }
  return true;
}

// A cancel is answered only if its submission has not been listed: some rank on the way up still holds it back, or the
// root itself does. Links are first in, first out, so what is held back cannot be a later submission of the same name.
void Negotiation::cancel(const std::string& name) {
  if (tree_.is_root()) {
    if (matcher_.has_own(name)) withdraw(name);
    return;
  }
  send_report({name, matcher_.missing(name), true, matcher_.has_own(name)});
}

void Negotiation::report(const std::string& name) {
  const auto ranks = matcher_.missing(name);
  if (tree_.is_root() || ranks.empty()) return;
  send_report({name, ranks, false, false});
}

void Negotiation::take_report(Rank child, Report report) {
  const bool held_here = matcher_.has_from_child(child, report.name);
  if (!held_here) matcher_.note_missing(child, report.name, std::move(report.missing), report.cancel);
  report.held_back |= held_here;
  if (!report.cancel) {
    this->report(report.name);
  } else if (tree_.is_root()) {
    if (report.held_back) withdraw(report.name);
  } else {
    report.missing = matcher_.missing(report.name);
    send_report(std::move(report));
  }
}

void Negotiation::withdraw(const std::string& name) {
  Envelope envelope;
  envelope.withdrawal = Withdrawal{name, matcher_.missing(name)};
  announce(envelope);
}

void Negotiation::fail(const Fatal& failure) {
  Envelope envelope;
  envelope.failure = failure;
  if (tree_.is_root()) {
    announce(envelope);
  } else {
    send_up(std::move(envelope));
  }
}

// At the root, where the order of everything is decided.
void Negotiation::announce(const Envelope& envelope) {
  send_down(envelope);
  apply(envelope);
}

// Marked with what this rank has heard of.
void Negotiation::send_up(Envelope envelope) {
  envelope.epoch = epoch();
  host_.send(tree_.parent(), envelope);
}

void Negotiation::send_report(Report report) {
  Envelope envelope;
  envelope.reports.push_back(std::move(report));
  send_up(std::move(envelope));
}

void Negotiation::send_down(const Envelope& envelope) {
  for (const Rank child : tree_.children()) host_.send(child, envelope);
}

void Negotiation::apply(const Envelope& envelope) {
  if (envelope.failure) apply_failure(*envelope.failure);
  if (envelope.withdrawal) {
    const auto& name = envelope.withdrawal->name;
    withdrawn_at_[name] = ++epoch_;
    matcher_.forget(name);
    host_.withdrawn(*envelope.withdrawal);
  }
  for (const auto& item : envelope.items) {
    if (ended_) return;
    if (item.sequence != next_sequence_) {
      throw DamagedMessage("malformed control message: item " + std::to_string(item.sequence) + " where item " +
                           std::to_string(next_sequence_) + " was expected");
    }
    ++next_sequence_;
    if (item.names.front().starts_with(kHeardPrefix)) {
      if (item.names.front() == heard_name(failed_at_)) host_.heard_by_all(failed_at_);
    } else {
      host_.execute(item, envelope.depth);
    }
  }
}

// That it has been heard of is agreed on as a request is, which all ranks submit by themselves.
void Negotiation::apply_failure(const Fatal& failure) {
  failed_at_ = ++epoch_;
  matcher_.forget_named();
  host_.failed(failure);
  if (ended_) return;
  Entry heard;
  heard.name = heard_name(failed_at_);
  heard.signature.kind = Kind::barrier;
  heard.rank = tree_.rank;
  matcher_.add_own(std::move(heard));
}

void Negotiation::end(const Fatal& fatal, Rank heard_from) {
  if (ended_) return;
  ended_ = true;
  host_.ended(fatal);
  Envelope envelope;
  envelope.fatal = fatal;
  for (const Rank neighbour : tree_.neighbours()) {
    if (neighbour == heard_from) continue;
    try {
      host_.send(neighbour, envelope);
    } catch (const Error&) {
      // It is gone too; the others are told.
    }
  }
}

}  // namespace kolo::engine
