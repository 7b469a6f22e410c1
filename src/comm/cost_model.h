#pragma once
// What an allreduce or a broadcast would cost, in microseconds. Pure functions of values: see cost_model.cpp.
#include <cstddef>
#include <string_view>

namespace kolo::comm {

// How an allreduce is done. The order decides between equal costs.
enum class Way {
  alone,
  in_place,      // direct, on the registered buffer
  lanes,         // direct, through lanes, one-shot
  sliced_lanes,  // direct, through lanes, sliced
  ring,
  tree,
  halving_doubling,
  recursive_doubling,
  hierarchical,
};
[[nodiscard]] std::string_view name_of(Way way) noexcept;

// How a broadcast over a network is done.
enum class Spread { chain, tree };

// One class of links.
struct LinkCosts {
  double alpha_us = 0;  // a message, from the moment when it may leave until its receiver has it
  double beta_us = 0;   // a byte each way, both ways busy, in a stream of segments
};

struct CostConstants {
  LinkCosts host;             // messages between ranks of one host
  LinkCosts network;          // messages between hosts
  double gamma_us = 0;        // a byte of two inputs summed
  double sync_us = 0;         // one meeting of a host's ranks on counters in shared memory
  double whole_factor = 1;    // on beta in a message that is sent whole and is longer than a segment: the medium asks
                              // before it sends such a one, and the two ways take turns
  double partner_factor = 1;  // on beta where a rank's partners change, or are several at once
};

// Fitted on one machine; the same for everybody, so that choices, and with them bits, repeat. docs/decisions/0004.
[[nodiscard]] CostConstants fixed_costs() noexcept;

// Where a group stands: equal on all its ranks.
struct Surroundings {
  int size = 1;
  bool shared_memory = false;  // all ranks on one host, with memory that all of them have mapped
  int hosts = 1;               // that the ranks are on, evenly as far as that goes
  int sharing = 1;             // groups on the same hosts that use the same links at the same time
  int lanes = 0;               // groups of one rank a host that can work together hierarchically; 0: cannot be had
  std::size_t segment_bytes = 60 * 1024;
  // On the most crowded host.
  [[nodiscard]] int ranks_per_host() const noexcept { return (size + hosts - 1) / hosts; }
};

// An allreduce: `bytes` a rank as they travel; flags that do not fit beside the data go round before it.
struct Load {
  std::size_t bytes = 0;
  bool flags = false;
};

// REQUIRES: a group of two and more, and a way that can be had there.
[[nodiscard]] double cost_us(Way way, const Load& load, const Surroundings& surroundings,
                             const CostConstants& constants);
// How many rounds of recursive doubling should halve `bytes`.
[[nodiscard]] int halvings_of(std::size_t bytes, const Surroundings& surroundings, const CostConstants& constants);
[[nodiscard]] double cost_us(Spread spread, std::size_t bytes, const Surroundings& surroundings,
                             const CostConstants& constants);
// The group that each of a host's ranks works in, across the hosts, when the work is done hierarchically.
[[nodiscard]] Surroundings across(const Surroundings& surroundings) noexcept;

}  // namespace kolo::comm
