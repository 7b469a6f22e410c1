// Barrier over a Transport: dissemination of nothing.
#include "collectives/dissemination.h"
#include "collectives/network.h"

namespace kolo::collectives {
namespace {

class DisseminationBarrier final : public Machine {
 public:
  explicit DisseminationBarrier(const NetworkParts& parts)
      : Machine(parts.group), rounds_(*parts.group->transport, parts.tag, {}) {}
  [[nodiscard]] std::vector<Rank> waiting_for() const override { return rounds_.waiting_for(); }

 private:
  bool step() override { return rounds_.advance(); }
  Dissemination rounds_;
};

}  // namespace

std::unique_ptr<Operation> start_dissemination_barrier(const NetworkParts& parts) {
  return std::make_unique<DisseminationBarrier>(parts);
}

}  // namespace kolo::collectives
