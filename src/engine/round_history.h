#pragma once
// In which order the rounds of several reducers end, and so which one is next: what a rank must know that fails between
// two rounds, because its peers wait in the next one.
//
//   discriminator, discriminator, generator, discriminator, discriminator, generator, discriminator, ?
//                  ^ the longest stretch that has come before as the latest one has: ... went on with what followed
//
// All ranks run the same program, so they have the same history. A program that repeats itself is known by its second
// period, or, if that is hard to tell from another stretch of the first one, by its third.
#include <cstddef>
#include <functional>
#include <set>
#include <vector>

namespace kolo::engine {

// Externally synchronized.
class RoundHistory {
 public:
  // By the reducers' ids.
  void opened(std::size_t id) { open_.insert(id); }
  void ended(std::size_t id);
  // The reducer is gone, perhaps in the middle of a round.
  void gone(std::size_t id) { open_.erase(id); }
  struct End {
    std::size_t id = 0;
    std::vector<std::size_t> beside;  // others that were open
  };
  // What is likely to end next of those that `may`, as it ended when it came before; null where nothing like it has
  // happened yet. What is not open while something else is, is next only if it came like that before: when one backward
  // pass opens the rounds of several optimizers, the first one to step need not be the first one to have gradients.
  // Valid until something ends.
  [[nodiscard]] const End* next(const std::function<bool(std::size_t id)>& may) const;

 private:
  [[nodiscard]] bool others_open(std::size_t id) const;

  std::vector<End> ends_;  // the latest last
  std::set<std::size_t> open_;
};

}  // namespace kolo::engine
