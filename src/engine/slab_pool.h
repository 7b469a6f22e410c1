#pragma once
// Registered memory for the results of named operations. A slab is claimed as long as a name whose last result lies in
// it has not been listed again. Names are listed in the same order everywhere, so the ranks of a host choose, allocate
// and free alike, and a program that repeats its names stops allocating, however its operations are fused.
//
// The pool keeps at most `most_bytes`, claimed slabs included: a name may never come again. Beyond that the pool lets
// go of the slab that was claimed longest ago, although its operation may be in flight: when an operation completes
// differs between ranks, so the pool cannot depend on it. A larger slab than `most_bytes` is never kept.
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "kolo/communicator.h"

namespace kolo::engine {

struct Slab {
  std::unique_ptr<RegisteredBuffer> buffer;
  std::size_t bytes = 0;
  std::set<std::string> names;  // whose last result lies here
  std::uint64_t id = 0;         // in order of allocation
  std::uint64_t last_used = 0;  // in order of claims
};

// Externally synchronized; the same calls in the same order on all ranks of a host.
class SlabPool {
 public:
  // `communicator` is borrowed. `most_bytes` is the same on all ranks of a host, whose affair an allocation is.
  SlabPool(Communicator& communicator, std::chrono::milliseconds timeout, std::size_t most_bytes)
      : communicator_(communicator), timeout_(timeout), most_bytes_(most_bytes) {}

  // Memory for these names, whose earlier results are given up. Shared with operations and results: a slab that the
  // pool has let go lives as long as they do. Allocating is collective and waits for all ranks.
  [[nodiscard]] std::shared_ptr<Slab> claim(const std::vector<std::string>& names, std::size_t bytes);
  [[nodiscard]] bool would_allocate(const std::vector<std::string>& names, std::size_t bytes) const;
  // What the pool keeps.
  [[nodiscard]] std::size_t size() const noexcept { return by_use_.size(); }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

 private:
  using Key = std::pair<std::size_t, std::uint64_t>;  // bytes, id
  [[nodiscard]] std::shared_ptr<Slab> find(const std::vector<std::string>& names, std::size_t bytes) const;
  [[nodiscard]] std::shared_ptr<Slab> allocate(std::size_t size);
  void keep(const std::shared_ptr<Slab>& slab, const std::vector<std::string>& names);
  void drop_claims(const std::vector<std::string>& names);
  void let_go(const std::shared_ptr<Slab>& slab);
  void make_room(std::size_t size);

  Communicator& communicator_;
  std::chrono::milliseconds timeout_;
  std::size_t most_bytes_;
  std::map<std::uint64_t, std::shared_ptr<Slab>> by_use_;  // all; by last_used
  std::map<Key, std::shared_ptr<Slab>> free_;              // those without names
  std::map<std::string, std::shared_ptr<Slab>> claims_;    // by name
  std::size_t bytes_ = 0;                                  // of all
  std::uint64_t allocations_ = 0;
  std::uint64_t uses_ = 0;
};

}  // namespace kolo::engine
