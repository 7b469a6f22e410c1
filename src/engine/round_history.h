#pragma once
// In which order the rounds of several reducers end, and so which one is next: what a rank must know that fails between
// two rounds, because its peers wait in the next one.
//
//   discriminator, discriminator, generator, discriminator, discriminator, generator, discriminator, ?
//                  ^ the longest stretch that has come before as the latest one has: ... went on with what followed
//
// All ranks run the same program, so they have the same history. A program that repeats itself is known by its second
// period, or, if that is hard to tell from another stretch of the first one, by its third.
//
// A round that fails ends by an exception on every rank, and the program goes on elsewhere than after one that does
// not: as it did after such a round before, and the first time where it once began; but what is open is ended first.
#include <cstddef>
#include <functional>
#include <optional>
#include <set>
#include <vector>

namespace kolo::engine {

// Externally synchronized.
class RoundHistory {
 public:
  // By the reducers' ids.
  void opened(std::size_t id) { open_.insert(id); }
  void ended(std::size_t id, bool failed = false);
  // The reducer is gone, perhaps in the middle of a round.
  void gone(std::size_t id) { open_.erase(id); }
  struct End {
    std::size_t id = 0;
    std::vector<std::size_t> beside;  // others that were open
    bool failed = false;
  };
  // What is likely to end next of those that `may`, as it ended when it came before; null where nothing like it has
  // happened yet. What is not open while something else is, is next only if it came like that before: when one backward
  // pass opens the rounds of several optimizers, the first one to step need not be the first one to have gradients.
  // Valid until something ends.
  [[nodiscard]] const End* next(const std::function<bool(std::size_t id)>& may) const;
  // Others that are likely to be open when a round of `id`, the next to end, ends.
  [[nodiscard]] std::vector<std::size_t> beside(std::size_t id) const;

 private:
  enum class After { like_the_last, any };
  [[nodiscard]] const End* match(const std::function<bool(std::size_t id)>& may, After after) const;
  [[nodiscard]] bool others_open(std::size_t id) const;
  // How many ends before ends_[at] are those that came last.
  [[nodiscard]] std::size_t alike_before(std::size_t at) const;

  std::vector<End> ends_;     // the latest last
  std::optional<End> first_;  // of all
  std::set<std::size_t> open_;
};

}  // namespace kolo::engine
