#pragma once
// A stream of messages from one process to another through a ring in memory that both have mapped. One writer, one
// reader. Positions count bytes since the beginning and never wrap; a message starts on a cache line, so that a small
// one, with its header, is one line:
//
//        tail (reader)                 head (writer)
//          v                             v
//   ...... | header payload pad | header payl                 ......
//          ^ a multiple of 64
//
// A message longer than the ring goes through it in pieces.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/cache_line.h"
#include "transport/transport.h"

namespace kolo::transport {

using base::kCacheLine;

// In shared memory, all zeros at first; reached through std::atomic_ref only.
struct RingControl {
  alignas(kCacheLine) std::uint64_t head;
  alignas(kCacheLine) std::uint64_t tail;
  alignas(kCacheLine) std::uint32_t writer_blocked;  // the writer wants to be told of room
};

struct FrameHeader {
  std::uint64_t length;
  std::uint32_t tag;
  std::uint32_t unused;
};

// The writer's end. The head is published with sequential consistency: the reader announces that it sleeps and then
// looks at the head, the writer moves the head and then looks whether the reader sleeps; one of them sees the other.
class RingWriter {
 public:
  RingWriter() = default;
  RingWriter(RingControl* control, std::span<std::byte> bytes) : control_(control), bytes_(bytes) {}
  // Starts a message; false when there is no room for its first line.
  bool begin(Tag tag, std::uint64_t length) noexcept;
  // Copies what fits of the rest of the message that was begun, and publishes it. Returns how much.
  std::size_t write(std::span<const std::byte> rest) noexcept;
  [[nodiscard]] bool has_room() const noexcept { return room() >= kCacheLine; }
  void set_blocked(bool blocked) noexcept;

 private:
  [[nodiscard]] std::size_t room() const noexcept;
  void put(const std::byte* from, std::size_t count) noexcept;

  RingControl* control_ = nullptr;
  std::span<std::byte> bytes_;
  std::uint64_t position_ = 0;
};

class RingReader {
 public:
  RingReader() = default;
  RingReader(RingControl* control, std::span<std::byte> bytes) : control_(control), bytes_(bytes) {}
  [[nodiscard]] bool empty() const noexcept { return available() == 0; }
  // Reads the header of the next message. REQUIRES: !empty() and no message is being read.
  FrameHeader begin() noexcept;
  // Moves up to `rest` bytes of the message into `to` (null: nowhere), frees the room. Returns how many; call it
  // once for an empty message too.
  std::size_t read(std::byte* to, std::size_t rest) noexcept;
  [[nodiscard]] bool writer_blocked() const noexcept;

 private:
  [[nodiscard]] std::size_t available() const noexcept;

  RingControl* control_ = nullptr;
  std::span<std::byte> bytes_;
  std::uint64_t position_ = 0;
};

}  // namespace kolo::transport
