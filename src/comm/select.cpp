#include "comm/select.h"

#include <algorithm>
#include <cstdio>
#include <limits>

#include "collectives/lane_operations.h"
#include "collectives/widen.h"
#include "kolo/error.h"
#include "kolo/spi/communicator.h"

namespace kolo::comm {
namespace {

// Sizes between which the cheapest way is looked up; beyond them it stays.
constexpr std::size_t kLeast = 1;
constexpr std::size_t kMost = std::size_t{1} << 40;

// What travels: averages of short integers do so as 64-bit sums.
Load load_of(const AllreduceOptions& options) {
  const bool wide = options.op == ReduceOp::average && collectives::can_widen(options.dtype);
  return {options.count * size_of(wide ? DType::i64 : options.dtype), !options.flags.words.empty()};
}

std::string printed(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof(text), format, value);
  return text;
}

std::string time_of(double us) { return printed("%.3g us", us); }

std::string words_of(const LinkCosts& link) {
  return printed("%.3g us", link.alpha_us) + printed(" + %.3g ns a byte", link.beta_us * 1e3);
}

std::string words_of(const CostConstants& constants) {
  return "costs: between hosts " + words_of(constants.network) + "; inside a host " + words_of(constants.host) +
         ", barrier " + time_of(constants.sync_us) + printed("; reducing %.3g ns a byte", constants.gamma_us * 1e3) +
         printed("; whole messages x %.3g", constants.whole_factor) +
         printed(", changing partners x %.3g", constants.partner_factor);
}

Algorithm algorithm_of(Way way) noexcept {
  switch (way) {
    case Way::ring:
      return Algorithm::ring;
    case Way::tree:
      return Algorithm::tree;
    case Way::halving_doubling:
      return Algorithm::halving_doubling;
    case Way::recursive_doubling:
      return Algorithm::recursive_doubling;
    case Way::hierarchical:
      return Algorithm::hierarchical;
    default:
      return Algorithm::direct;
  }
}

}  // namespace

Chooser::Chooser(const Surroundings& surroundings, const CostConstants& constants)
    : surroundings_(surroundings), constants_(constants) {
  if (surroundings.size == 1) return;
  ways_ = {Way::ring, Way::tree, Way::halving_doubling, Way::recursive_doubling};
  if (surroundings.lanes > 0) ways_.push_back(Way::hierarchical);
  plain_ = crossovers(false);
  flagged_ = crossovers(true);
}

Chooser::Priced Chooser::cheapest(const Load& load, std::optional<Way> but) const {
  Priced best{Way::alone, std::numeric_limits<double>::infinity()};
  for (const Way way : ways_) {
    if (way == but) continue;
    const double us = cost_us(way, load, surroundings_, constants_);
    if (us < best.us) best = {way, us};
  }
  return best;
}

// A way that is cheapest only between two neighbours of the grid, a quarter apart, is not seen; it would save little.
std::vector<Chooser::Crossover> Chooser::crossovers(bool flags) const {
  std::vector<Crossover> found{{0, cheapest({kLeast, flags}).way}};
  for (std::size_t below = kLeast; below < kMost;) {
    const std::size_t above = below + std::max<std::size_t>(1, below / 4);
    const Way next = cheapest({above, flags}).way;
    if (next != found.back().way) {
      std::size_t low = below;
      std::size_t high = above;
      while (high - low > 1) {
        const std::size_t middle = low + (high - low) / 2;
        (cheapest({middle, flags}).way == found.back().way ? low : high) = middle;
      }
      found.push_back({high, cheapest({high, flags}).way});
    }
    below = above;
  }
  return found;
}

Way Chooser::direct_way(const AllreduceOptions& options) const {
  const std::size_t bytes = options.count * size_of(options.dtype);
  if (options.registered != nullptr && bytes > kSmallRegisteredBytes) return Way::in_place;
  const bool small = bytes <= collectives::kLaneBytes / 8;
  return surroundings_.size >= collectives::kSlicedFrom && !small ? Way::sliced_lanes : Way::lanes;
}

Way Chooser::asked_for(Algorithm algorithm, const AllreduceOptions& options) const {
  switch (algorithm) {
    case Algorithm::ring:
      return Way::ring;
    case Algorithm::tree:
      return Way::tree;
    case Algorithm::halving_doubling:
      return Way::halving_doubling;
    case Algorithm::recursive_doubling:
      return Way::recursive_doubling;
    case Algorithm::direct:
      if (surroundings_.shared_memory) return direct_way(options);
      throw UsageError("allreduce: algorithm direct needs all ranks on one host with shared memory");
    case Algorithm::hierarchical:
      if (surroundings_.lanes > 0) return Way::hierarchical;
      throw UsageError("allreduce: algorithm hierarchical needs several hosts, and more ranks than hosts");
    default:
      throw UsageError("allreduce: this communicator has no algorithm mpi");
  }
}

Way Chooser::way(const AllreduceOptions& options) const {
  if (surroundings_.size == 1) {
    if (options.algorithm == Algorithm::mpi) return asked_for(options.algorithm, options);
    return Way::alone;
  }
  if (options.algorithm != Algorithm::automatic) return asked_for(options.algorithm, options);
  if (surroundings_.shared_memory) return direct_way(options);
  const Load load = load_of(options);
  const std::vector<Crossover>& table = load.flags ? flagged_ : plain_;
  const auto next =
      std::upper_bound(table.begin(), table.end(), load.bytes,
                       [](std::size_t bytes, const Crossover& crossover) { return bytes < crossover.from; });
  return std::prev(next)->way;
}

std::string Chooser::words(const AllreduceOptions& options, const Priced& chosen) const {
  std::string text(name_of(chosen.way));
  const int halvings = chosen.way == Way::recursive_doubling ? this->halvings(options) : 0;
  if (halvings > 0) text += " with " + std::to_string(halvings) + (halvings == 1 ? " halving" : " halvings");
  text += options.algorithm == Algorithm::automatic ? ", " : " (requested), ";
  text += time_of(chosen.us) + " expected";
  const Priced second = cheapest(load_of(options), chosen.way);
  if (second.way != Way::alone) {
    text += options.algorithm == Algorithm::automatic ? "; next: " : "; else: ";
    text += std::string(name_of(second.way)) + ", " + time_of(second.us);
  }
  text += "; " + std::to_string(surroundings_.size) + " ranks on " +
          (surroundings_.hosts == 1 ? "one host" : std::to_string(surroundings_.hosts) + " hosts");
  return text + "; " + words_of(constants_);
}

Selection Chooser::select(const AllreduceOptions& options) const {
  const Way chosen = way(options);
  Choice choice;
  choice.algorithm = algorithm_of(chosen);
  choice.predicted_us = cost_us(chosen, load_of(options), surroundings_, constants_);
  choice.reason =
      chosen == Way::alone ? "a group of one rank: nothing to exchange" : words(options, {chosen, choice.predicted_us});
  return {chosen, std::move(choice)};
}

int Chooser::halvings(const AllreduceOptions& options) const {
  return halvings_of(load_of(options).bytes, surroundings_, constants_);
}

Spread Chooser::spread(std::size_t bytes) const {
  const double chain = cost_us(Spread::chain, bytes, surroundings_, constants_);
  return cost_us(Spread::tree, bytes, surroundings_, constants_) < chain ? Spread::tree : Spread::chain;
}

}  // namespace kolo::comm
