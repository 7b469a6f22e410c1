#include "support/device/device_memory.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace kolo::test {
namespace {

constexpr std::size_t kAlignment = 256;
constexpr std::size_t kGuard = 256;  // bytes on either side of every block
constexpr int kGuardByte = 0xfd;
constexpr int kFreshByte = 0xcd;  // allocated, not written yet
constexpr int kReleasedByte = 0xdd;
constexpr std::uintptr_t kPage = 4096;

std::uintptr_t address(const void* memory) { return reinterpret_cast<std::uintptr_t>(memory); }

// Whether all bytes are this one.
bool all(const std::byte* begin, std::size_t bytes, int value) {
  return bytes == 0 || (begin[0] == std::byte(value) && std::memcmp(begin, begin + 1, bytes - 1) == 0);
}

const char* kind_name(MemoryKind kind) {
  switch (kind) {
    case MemoryKind::device:
      return "device";
    case MemoryKind::pinned:
      return "pinned";
    case MemoryKind::registered:
      return "registered";
    case MemoryKind::token:
      return "token";
  }
  return "?";
}

std::string verb(Access access) { return access == Access::write ? "writes" : "reads"; }

}  // namespace

void join(Clock& into, const Clock& other) {
  if (into.size() < other.size()) into.resize(other.size(), 0);
  for (std::size_t i = 0; i < other.size(); ++i) into[i] = std::max(into[i], other[i]);
}

void* DeviceMemory::allocate(MemoryKind kind, int device, std::size_t bytes, std::string name) {
  Block block;
  block.kind = kind;
  block.device = device;
  block.bytes = bytes;
  block.name = name.empty() ? std::string(kind_name(kind)) + " memory " + std::to_string(++number_) : std::move(name);
  block.storage.assign(bytes + 2 * kGuard + kAlignment, std::byte(kGuardByte));
  const auto first = address(block.storage.data()) + kGuard;
  block.data = block.storage.data() + kGuard + (kAlignment - first % kAlignment) % kAlignment;
  std::memset(block.data, kFreshByte, bytes);
  block.pieces[0].end = bytes;
  void* const data = block.data;
  blocks_.emplace(address(data), std::move(block));
  return data;
}

bool DeviceMemory::add_registered(void* memory, std::size_t bytes) {
  const auto first_page = [](const auto start) { return start / kPage; };
  const auto begin = first_page(address(memory));
  const auto end = first_page(address(memory) + bytes - 1);
  for (const auto& [start, block] : blocks_) {
    const bool shared = first_page(start) <= end && first_page(start + block.bytes - 1) >= begin;
    if (block.kind == MemoryKind::registered && shared) return false;
  }
  Block block;
  block.kind = MemoryKind::registered;
  block.device = -1;
  block.bytes = bytes;
  block.name = "registered memory " + std::to_string(++number_);
  block.data = static_cast<std::byte*>(memory);
  block.pieces[0].end = bytes;
  blocks_.emplace(address(memory), std::move(block));
  return true;
}

bool DeviceMemory::release(void* memory, MemoryKind kind) {
  const auto found = blocks_.find(address(memory));
  if (found == blocks_.end() || found->second.released || found->second.kind != kind) return false;
  if (kind == MemoryKind::registered) {
    blocks_.erase(found);
    return true;
  }
  Block& block = found->second;
  block.released = true;
  std::memset(block.data, kReleasedByte, block.bytes);
  return true;
}

Block* DeviceMemory::find(const void* memory) {
  auto next = blocks_.upper_bound(address(memory));
  if (next == blocks_.begin()) return nullptr;
  Block& block = std::prev(next)->second;
  return address(memory) < address(block.data) + block.bytes ? &block : nullptr;
}

std::string DeviceMemory::describe(const Range& range) {
  const Block* const block = find(range.memory);
  if (block == nullptr) return std::to_string(range.bytes) + " bytes of memory that no device knows";
  if (block->kind == MemoryKind::token) return block->name;
  const std::size_t begin = address(range.memory) - address(block->data);
  return "bytes " + std::to_string(begin) + " to " + std::to_string(begin + range.bytes) + " of " + block->name;
}

bool DeviceMemory::usable(const Range& range, int device, const std::string& what) {
  if (range.memory == nullptr || range.bytes == 0) return true;
  const Block* const block = find(range.memory);
  std::string wrong;
  if (block == nullptr) {
    wrong = "never allocated, released to the host, or pageable memory of the host";
  } else if (block->released) {
    wrong = "released";
  } else if (address(range.memory) + range.bytes > address(block->data) + block->bytes) {
    wrong = "beyond the end of what was allocated";
  } else if (block->kind == MemoryKind::device && device >= 0 && block->device != device) {
    wrong = "memory of device " + std::to_string(block->device);
  }
  if (wrong.empty()) return true;
  report_(Fault::bad_memory, what + " " + verb(range.access) + " " + describe(range) + ": " + wrong);
  return false;
}

std::size_t DeviceMemory::live_bytes(MemoryKind kind, int device) const {
  std::size_t sum = 0;
  for (const auto& [start, block] : blocks_) {
    if (block.kind == kind && block.device == device && !block.released) sum += block.bytes;
  }
  return sum;
}

// Sees to it that a piece begins at `at`, and returns it (or the end).
DeviceMemory::Pieces::iterator DeviceMemory::cut(Pieces& pieces, std::size_t at) {
  const auto next = pieces.lower_bound(at);
  if (next != pieces.end() && next->first == at) return next;
  if (next == pieces.begin()) return next;
  auto& before = std::prev(next)->second;
  if (before.end <= at) return next;
  const auto made = pieces.emplace_hint(next, at, before);
  before.end = at;
  return made;
}

template <class F>
void DeviceMemory::for_pieces(const Range& range, F&& each) {
  if (range.memory == nullptr || range.bytes == 0) return;
  Block* const block = find(range.memory);
  if (block == nullptr) return;
  const std::size_t begin = address(range.memory) - address(block->data);
  const std::size_t end = std::min(begin + range.bytes, block->bytes);
  const auto first = cut(block->pieces, begin);
  const auto last = cut(block->pieces, end);
  for (auto piece = first; piece != last; ++piece) each(piece->second);
}

void DeviceMemory::conflict(const Range& range, const Use& use, const Stamp& earlier, Access access) {
  report_(Fault::race, *use.stamp.what + " " + verb(range.access) + " " + describe(range) + ", which " + *earlier.what +
                           " " + verb(access) + ", and nothing orders the two");
}

void DeviceMemory::use(const std::vector<Range>& ranges, const Use& use) {
  for (const Range& range : ranges) {
    bool told = false;  // once a range
    for_pieces(range, [&](const Block::Piece& piece) {
      if (told) return;
      if (piece.writer && !piece.writer->before(use.clock)) {
        conflict(range, use, *piece.writer, Access::write);
        told = true;
      }
      if (told || range.access == Access::read) return;
      for (const Stamp& reader : piece.readers) {
        if (reader.before(use.clock)) continue;
        conflict(range, use, reader, Access::read);
        told = true;
        return;
      }
    });
  }
  for (const Range& range : ranges) {  // only now: an operation does not race with itself
    for_pieces(range, [&](Block::Piece& piece) {
      if (range.access == Access::write) {
        piece.writer = use.stamp;
        piece.readers.clear();
        return;
      }
      std::erase_if(piece.readers, [&](const Stamp& reader) { return reader.stream == use.stamp.stream; });
      piece.readers.push_back(use.stamp);
    });
  }
}

std::vector<std::string> DeviceMemory::in_flight(const Range& range, const Clock& clock) {
  std::vector<std::string> found;
  const auto note = [&](const Stamp& stamp) {
    if (!stamp.before(clock) && std::find(found.begin(), found.end(), *stamp.what) == found.end()) {
      found.push_back(*stamp.what);
    }
  };
  for_pieces(range, [&](const Block::Piece& piece) {
    if (piece.writer) note(*piece.writer);
    if (range.access == Access::write) std::for_each(piece.readers.begin(), piece.readers.end(), note);
  });
  return found;
}

void DeviceMemory::check_guards(const std::string& what, bool thorough) {
  for (auto& [start, block] : blocks_) {
    if (block.storage.empty() || (block.released && !thorough)) continue;
    std::byte* const storage = block.storage.data();
    const std::size_t before = static_cast<std::size_t>(block.data - storage);
    const std::size_t after = block.storage.size() - before - block.bytes;
    if (!all(storage, before, kGuardByte) || !all(block.data + block.bytes, after, kGuardByte)) {
      report_(Fault::outside_memory, what + " has written beside " + block.name);
      std::memset(storage, kGuardByte, before);
      std::memset(block.data + block.bytes, kGuardByte, after);
    }
    if (thorough && block.released && !all(block.data, block.bytes, kReleasedByte)) {
      report_(Fault::outside_memory, what + " has written into " + block.name + ", which was released");
      std::memset(block.data, kReleasedByte, block.bytes);
    }
  }
}

}  // namespace kolo::test
