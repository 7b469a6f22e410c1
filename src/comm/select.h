#pragma once
// Which algorithm runs an allreduce or a broadcast: the cheapest that can be had, by the cost model. All ranks of a
// group must be given the same surroundings and constants: a choice that differs between ranks is a hang.
#include <optional>
#include <vector>

#include "comm/cost_model.h"
#include "kolo/spi/communicator.h"

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
  explicit Chooser(const Surroundings& surroundings, const CostConstants& constants = fixed_costs());

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
  [[nodiscard]] Priced cheapest(const Load& load, std::optional<Way> but = std::nullopt) const;
  [[nodiscard]] Way asked_for(Algorithm algorithm, const AllreduceOptions& options) const;
  [[nodiscard]] Way direct_way(const AllreduceOptions& options) const;
  [[nodiscard]] std::string words(const AllreduceOptions& options, const Priced& chosen) const;

  Surroundings surroundings_;
  CostConstants constants_;
  std::vector<Way> ways_;  // over messages, that can be had here
  std::vector<Crossover> plain_;
  std::vector<Crossover> flagged_;
};

}  // namespace kolo::comm
