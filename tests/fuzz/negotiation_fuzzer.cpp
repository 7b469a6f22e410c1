// A rank between neighbours that say anything at all: whatever arrives, it is refused as damaged, or the rank goes on
// as docs/protocol.md says. It speaks to its neighbours only, runs the list without gaps, runs nothing that it has not
// submitted, and at the end has at most what it was given.
#include <map>
#include <string>

#include "engine/codec.h"
#include "engine/message_check.h"
#include "engine/negotiation.h"
#include "fuzz/envelopes.h"
#include "fuzz/property.h"

namespace {

using namespace kolo;
using namespace kolo::engine;

class Host final : public NegotiationHost {
 public:
  explicit Host(Tree tree) : negotiation_(tree, 64, *this) {}

  void step(fuzz::ByteSource& source) {
    switch (source.below(8)) {
      case 0:
      case 1:
        submit(source);
        break;
      case 2:
        negotiation_.cancel(fuzz::make_name(source));
        break;
      case 3:
        negotiation_.report(fuzz::make_name(source));
        break;
      case 4:
        if (!ended_) negotiation_.relay();
        break;
      default:
        receive(source);
    }
  }

 private:
  void submit(fuzz::ByteSource& source) {
    Entry entry;
    entry.name = fuzz::make_name(source);
    entry.rank = negotiation_.tree().rank;
    entry.signature.kind = static_cast<Kind>(source.below(static_cast<std::size_t>(Kind::gradient_round) + 1));
    entry.signature.sizes = {static_cast<std::int64_t>(source.below(9))};
    if (entry.signature.kind == Kind::allgather) {
      entry.ranks = {entry.rank};
      entry.bytes = {payload(entry.signature)};
    }
    if (entry.name.empty() || ended_ || !pending_.emplace(entry.name, entry.signature).second) return;
    negotiation_.submit(std::move(entry));
  }
  static std::uint64_t payload(const Signature& signature) {
    return size_of(signature.dtype) * static_cast<std::uint64_t>(signature.sizes.front());
  }
  void receive(fuzz::ByteSource& source) {
    const auto neighbours = negotiation_.tree().neighbours();
    const Rank from = neighbours[source.below(neighbours.size())];
    auto envelope = fuzz::make_envelope(source);
    const bool from_parent = !negotiation_.tree().is_root() && from == negotiation_.tree().parent();
    if (source.below(8) != 0) {  // in most inputs what this neighbour may say at all
      if (from_parent) {
        envelope.entries.clear();
        envelope.reports.clear();
        std::uint64_t next = negotiation_.next_sequence();
        for (auto& item : envelope.items) item.sequence = next++;
      } else {
        envelope.items.clear();
        envelope.withdrawal.reset();
      }
    }
    negotiation_.receive(from, decode(encode(envelope)));
  }

  void send(Rank to, const Envelope& envelope) override {
    const auto neighbours = negotiation_.tree().neighbours();
    KOLO_CLAIM(std::find(neighbours.begin(), neighbours.end(), to) != neighbours.end());
    (void)encode(envelope);
  }
  void execute(const Item& item, std::uint32_t /*depth*/) override {
    KOLO_CLAIM(!ended_ && item.sequence == executed_++);
    std::vector<const Signature*> own;
    for (const auto& name : item.names) {
      const auto found = pending_.find(name);
      if (found == pending_.end()) throw DamagedMessage("not submitted");
      own.push_back(&found->second);
    }
    check(item, own, negotiation_.tree());
    if (own.front()->kind == Kind::allgather && !item.conflict && item.failed_ranks.empty()) {
      KOLO_CLAIM(item.bytes.size() == static_cast<std::size_t>(negotiation_.tree().size));
      KOLO_CLAIM(item.bytes[static_cast<std::size_t>(negotiation_.tree().rank)] == payload(*own.front()));
    }
    for (const auto& name : item.names) pending_.erase(name);
  }
  void withdrawn(const Withdrawal& withdrawal) override { pending_.erase(withdrawal.name); }
  void failed(const Fatal& failure) override {
    KOLO_CLAIM(!failure.ranks.empty());
    std::erase_if(pending_, [](const auto& row) { return row.second.kind != Kind::gradient_round; });
  }
  void heard_by_all(std::uint64_t epoch) override { KOLO_CLAIM(epoch > 0 && epoch <= negotiation_.epoch()); }
  void ended(const Fatal& /*fatal*/) override {
    KOLO_CLAIM(!ended_);
    ended_ = true;
    pending_.clear();
  }

  Negotiation negotiation_;
  std::map<std::string, Signature> pending_;
  std::uint64_t executed_ = 0;
  bool ended_ = false;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::ByteSource source({data, size});
  const int ranks = 2 + static_cast<int>(source.below(7));
  Host host({static_cast<Rank>(source.below(static_cast<std::size_t>(ranks))), ranks});
  try {
    while (!source.empty()) host.step(source);
  } catch (const DamagedMessage&) {
    // ends the group
  }
  return 0;
}
