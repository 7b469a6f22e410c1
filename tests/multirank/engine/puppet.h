#pragma once
// A rank of which there is nothing but what the test says in its name on the named channel.
#include <memory>

#include "base/deadline.h"
#include "engine/control_channel.h"
#include "engine/signature.h"
#include "multirank/engine/node.h"

namespace kolo::test {

class Puppet {
 public:
  explicit Puppet(std::unique_ptr<transport::Transport> end)
      : end_(std::move(end)), channel_({end_->rank(), end_->size()}, *end_, Node::kControlTag, counters_) {}

  [[nodiscard]] Rank rank() const { return end_->rank(); }
  // To rank 0.
  void say(const engine::Envelope& envelope) { channel_.send(0, envelope); }
  void submit(const std::string& name, engine::Signature signature) {
    engine::Entry entry;
    entry.name = name;
    entry.signature = std::move(signature);
    entry.rank = rank();
    engine::Envelope envelope;
    envelope.entries.push_back(std::move(entry));
    say(envelope);
  }
  // Whether it has heard of an item since the last call.
  [[nodiscard]] bool hears_of_an_item() {
    const auto received = channel_.receive();
    return received && !received->envelope.items.empty();
  }
  // It takes part in the making of the first reducer.
  void verify(const std::vector<GradientInfo>& table, const ReducerOptions& options) {
    engine::Signature signature;
    signature.kind = engine::Kind::gradient_round;
    signature.table = engine::table_text(table, options);
    submit("gradients/0/table", std::move(signature));
  }

 private:
  telemetry::Counters counters_;
  std::unique_ptr<transport::Transport> end_;
  engine::ControlChannel channel_;
};

// Makes progress on `node` until `done`, within what anybody takes on a busy machine.
template <class Done>
bool progress_until(Node& node, const Done& done) {
  const base::Deadline deadline(std::chrono::seconds(20));
  while (!done()) {
    if (deadline.passed()) return false;
    node.engine().progress();
  }
  return true;
}

}  // namespace kolo::test
