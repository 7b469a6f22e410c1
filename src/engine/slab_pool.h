#pragma once
// Registered memory for the results of named operations. A slab is in use as long as a name whose last result lies in
// it has not been listed again. Names are listed in the same order everywhere, so all ranks choose, allocate and free
// alike, and a program that repeats its names stops allocating, however its operations are fused.
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kolo/communicator.h"

namespace kolo::engine {

struct Slab {
  std::unique_ptr<RegisteredBuffer> buffer;
  std::size_t bytes = 0;
  std::size_t claims = 0;       // names whose last result lies here
  std::uint64_t id = 0;         // in order of allocation
  std::uint64_t last_used = 0;  // in order of claims
};

// Externally synchronized; the same calls in the same order on all ranks.
class SlabPool {
 public:
  // `communicator` is borrowed.
  SlabPool(Communicator& communicator, std::chrono::milliseconds timeout)
      : communicator_(communicator), timeout_(timeout) {}

  // Memory for these names, whose earlier results are given up. Shared with the results: a slab that the pool has let
  // go lives as long as they do. Allocating is collective and waits for all ranks.
  [[nodiscard]] std::shared_ptr<Slab> claim(const std::vector<std::string>& names, std::size_t bytes);
  [[nodiscard]] bool would_allocate(const std::vector<std::string>& names, std::size_t bytes) const;
  [[nodiscard]] std::size_t size() const noexcept { return by_use_.size(); }

 private:
  using Key = std::pair<std::size_t, std::uint64_t>;  // bytes, id
  [[nodiscard]] std::shared_ptr<Slab> find(const std::vector<std::string>& names, std::size_t bytes) const;
  [[nodiscard]] std::shared_ptr<Slab> allocate(std::size_t bytes);
  void drop_claims(const std::vector<std::string>& names);
  void let_go(const std::shared_ptr<Slab>& slab);
  void trim();

  Communicator& communicator_;
  std::chrono::milliseconds timeout_;
  std::map<std::uint64_t, std::shared_ptr<Slab>> by_use_;  // all; by last_used
  std::map<Key, std::shared_ptr<Slab>> free_;              // those without claims
  std::map<std::string, std::shared_ptr<Slab>> claims_;    // by name
  std::size_t free_bytes_ = 0;
  std::uint64_t allocations_ = 0;
  std::uint64_t uses_ = 0;
};

}  // namespace kolo::engine
