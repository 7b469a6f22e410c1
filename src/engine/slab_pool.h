#pragma once
// Registered memory for the results of named operations. A name claims the slab of its last result
// until the name is listed again or the pool drops the slab. All ranks list names in the same order,
// so the ranks of a host choose, allocate and free alike. If the slabs of all repeated names fit into
// `most_bytes`, the pool stops allocating, however operations are fused.
//
// The pool keeps at most `most_bytes`, claimed slabs included, because a name may never come again.
// Above this limit the pool drops the slab claimed longest ago, even if its operation is in flight:
// completion times differ between ranks, so the choice ignores them. Larger slabs are never kept.
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "kolo/spi/communicator.h"

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
  // Borrows `communicator`. `most_bytes` is equal on the ranks of a host, which allocate together.
  SlabPool(Communicator& communicator, std::chrono::milliseconds timeout, std::size_t most_bytes)
      : communicator_(communicator), timeout_(timeout), most_bytes_(most_bytes) {}

  // Memory for these names; their earlier results are given up. Operations and results share the
  // slab, so a dropped slab lives as long as they do. Allocating is collective: all ranks wait.
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
