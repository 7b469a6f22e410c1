#pragma once
// The memory of the simulated devices: who owns which addresses, what lies around them, and who used them last.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "support/device/simulated_device.h"

namespace kolo::test {

// What comes before something: of each stream, how many of its operations. An operation is its stream's position'th.
using Clock = std::vector<std::uint64_t>;
void join(Clock& into, const Clock& other);

struct Stamp {
  std::size_t stream = 0;
  std::uint64_t position = 0;
  std::shared_ptr<const std::string> what;

  [[nodiscard]] bool before(const Clock& clock) const { return stream < clock.size() && clock[stream] >= position; }
};

// One use of memory by one operation, with what it knows to be before it.
struct Use {
  const Clock& clock;
  Stamp stamp;
};

// registered: the host's own, pinned for a while (register_host).
enum class MemoryKind : std::uint8_t { device, pinned, registered, token };

struct Block {
  MemoryKind kind = MemoryKind::device;
  int device = 0;
  std::size_t bytes = 0;
  std::string name;
  bool released = false;

  // Who wrote last, and who has read since: the latest of each stream. Pieces are cut as accesses need it.
  struct Piece {
    std::size_t end = 0;
    std::optional<Stamp> writer;
    std::vector<Stamp> readers;
  };
  std::map<std::size_t, Piece> pieces;  // by first byte; together all of the block

  std::vector<std::byte> storage;  // with guards around the data; none: the host's own
  std::byte* data = nullptr;
};

// Not thread-safe: the core's lock guards it.
class DeviceMemory {
 public:
  using Report = std::function<void(Fault, std::string)>;
  explicit DeviceMemory(Report report) : report_(std::move(report)) {}

  void* allocate(MemoryKind kind, int device, std::size_t bytes, std::string name = {});
  // The host's own memory. False: a page of it is registered already.
  bool add_registered(void* memory, std::size_t bytes);
  // False: not the start of a live block of this kind. The memory stays, overwritten, until the end; the host's own is
  // forgotten.
  bool release(void* memory, MemoryKind kind);
  // The block, live or released, in which these bytes begin; null: none.
  [[nodiscard]] Block* find(const void* memory);
  // Whether an operation on `device` (-1: any) may use this; if not, that is reported in the name of `what`.
  bool usable(const Range& range, int device, const std::string& what);
  [[nodiscard]] std::string describe(const Range& range);
  [[nodiscard]] std::size_t live_bytes(MemoryKind kind, int device) const;

  // Notes the use, and reports every earlier one that it conflicts with and that is not before it.
  void use(const std::vector<Range>& ranges, const Use& use);
  // The uses of a range that a host that knows `clock` must still reckon with: writers, for a write also readers.
  [[nodiscard]] std::vector<std::string> in_flight(const Range& range, const Clock& clock);
  // Whether anything has written where nothing may be written, once each. Thorough: looks into released memory, too.
  void check_guards(const std::string& what, bool thorough);

 private:
  using Pieces = std::map<std::size_t, Block::Piece>;
  static Pieces::iterator cut(Pieces& pieces, std::size_t at);
  template <class F>
  void for_pieces(const Range& range, F&& each);
  void conflict(const Range& range, const Use& use, const Stamp& earlier, Access access);

  Report report_;
  std::map<std::uintptr_t, Block> blocks_;  // by first address
  int number_ = 0;
};

}  // namespace kolo::test
