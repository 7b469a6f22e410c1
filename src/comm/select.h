#pragma once
// Which algorithm runs an allreduce or a broadcast: the cheapest that can be had, by the cost model. All ranks of a
// group must be given the same surroundings and constants: a choice that differs between ranks is a hang.
#include <optional>
#include <vector>

#include "comm/corrections.h"
#include "kolo/communicator.h"

namespace kolo::comm {

struct Selection {
  Way way;
  Choice choice;
};

// Registered data up to this goes through lanes too: one synchronisation instead of two. Measured.
inline constexpr std::size_t kSmallRegisteredBytes = 2048;

// Where the cheapest way changes is worked out once, when it is made.
class Chooser {
 public:
  Chooser(const Surroundings& surroundings, const Costs& costs);

  // For the hot path. Throws UsageError when options.algorithm cannot be had.
  [[nodiscard]] Way way(const AllreduceOptions& options) const;
  // The same with the words: what is chosen, what it should take, what comes next.
  [[nodiscard]] Selection select(const AllreduceOptions& options) const;
  [[nodiscard]] Spread spread(std::size_t bytes) const;
  // Rounds that halve, for recursive doubling.
  [[nodiscard]] int halvings(const AllreduceOptions& options) const;
  [[nodiscard]] const Surroundings& surroundings() const noexcept { return surroundings_; }

 private:
  // `way` is the cheapest from `from` bytes on, up to the next.
  struct Crossover {
    std::size_t from;
    Way way;
  };
  struct Priced {
    Way way;
    double us;
  };

  [[nodiscard]] std::vector<Crossover> crossovers(bool flags) const;
  [[nodiscard]] double price_us(Way way, const Load& load) const;
  [[nodiscard]] Priced cheapest(const Load& load, std::optional<Way> but = std::nullopt) const;
  [[nodiscard]] Way asked_for(Algorithm algorithm, const AllreduceOptions& options) const;
  [[nodiscard]] Way direct_way(const AllreduceOptions& options) const;
  [[nodiscard]] std::string words(const AllreduceOptions& options, const Priced& chosen) const;

  Surroundings surroundings_;
  CostConstants constants_;
  Corrections corrections_;  // empty where those that are known are not of this group
  std::vector<Way> ways_;    // over messages, that can be had here
  std::vector<Crossover> plain_;
  std::vector<Crossover> flagged_;
};

// In a line, fit to print.
[[nodiscard]] std::string describe(const Costs& costs);
[[nodiscard]] Algorithm algorithm_of(Way way) noexcept;

}  // namespace kolo::comm
