#pragma once
// One rank's part in an allgather of texts after Bruck, Ho, Kipnis, Upfal and Weathersby (1997). Every rank starts with
// its own and doubles what it has in each round, from ranks ever farther to the right, so it speaks to 2 log2 p others
// and not to all:
//
//   rank 0:  0        0 1        0 1 2 3          in round k it sends what it has to rank r - 2^k, and receives as
//   rank 1:  1        1 2        1 2 3 0          much from rank r + 2^k; the last round only what is missing
//   rank 2:  2   ->   2 3   ->   2 3 0 1
//   rank 3:  3        3 0        3 0 1 2
//
// What is sent and received, and by what means, is the caller's.
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "kolo/types.h"

namespace kolo::cluster {

class DoublingGather {
 public:
  DoublingGather(Rank rank, int size, std::string mine) : rank_(rank), size_(size), texts_{std::move(mine)} {}

  // Whether there is another round.
  [[nodiscard]] bool more() const noexcept { return static_cast<int>(texts_.size()) < size_; }
  // Of the next one. REQUIRES: more().
  [[nodiscard]] Rank to() const noexcept { return (rank_ - distance() + size_) % size_; }
  [[nodiscard]] Rank from() const noexcept { return (rank_ + distance()) % size_; }
  [[nodiscard]] std::vector<std::byte> outgoing() const;
  // Ends it with what has come. Throws BackendError for what no rank sends.
  void take(std::span<const std::byte> incoming);
  // By rank. REQUIRES: !more().
  [[nodiscard]] std::vector<std::string> all() &&;

 private:
  [[nodiscard]] int distance() const noexcept { return static_cast<int>(texts_.size()); }
  [[nodiscard]] std::size_t count() const noexcept;

  Rank rank_;
  int size_;
  std::vector<std::string> texts_;  // of this rank and those to its right
};

}  // namespace kolo::cluster
