#include "transport/shm_ring.h"

#include <algorithm>
#include <cstring>

namespace kolo::transport {
namespace {

// How much is copied before it is shown to the other side, so that both copy at the same time.
constexpr std::size_t kPiece = std::size_t{32} << 10;

}  // namespace

std::size_t RingWriter::room() const noexcept {
  const std::uint64_t used = position_ - std::atomic_ref(control_->tail).load();
  return used >= bytes_.size() ? 0 : bytes_.size() - used;
}

void RingWriter::put(const std::byte* from, std::size_t count) noexcept {
  const std::size_t at = position_ % bytes_.size();
  const std::size_t first = std::min(count, bytes_.size() - at);
  if (first > 0) std::memcpy(bytes_.data() + at, from, first);
  if (count > first) std::memcpy(bytes_.data(), from + first, count - first);
  position_ += count;
}

bool RingWriter::begin(Tag tag, std::uint64_t length) noexcept {
  if (room() < kCacheLine) return false;
  const FrameHeader header{length, tag, 0};
  put(reinterpret_cast<const std::byte*>(&header), sizeof(header));
  return true;  // published with the first bytes of the payload
}

std::size_t RingWriter::write(std::span<const std::byte> rest) noexcept {
  std::size_t written = 0;
  std::size_t piece = 0;
  do {
    piece = std::min({rest.size() - written, room(), kPiece});
    put(rest.data() + written, piece);
    written += piece;
    if (written == rest.size()) position_ = base::whole_lines(position_);
    std::atomic_ref(control_->head).store(position_);
  } while (piece > 0 && written < rest.size());
  return written;
}

void RingWriter::set_blocked(bool blocked) noexcept {
  std::atomic_ref(control_->writer_blocked).store(blocked ? 1 : 0);
}

std::size_t RingReader::available() const noexcept { return std::atomic_ref(control_->head).load() - position_; }

FrameHeader RingReader::begin() noexcept {
  FrameHeader header{};
  std::memcpy(&header, bytes_.data() + position_ % bytes_.size(), sizeof(header));  // never wraps: starts a line
  position_ += sizeof(header);
  return header;
}

std::size_t RingReader::read(std::byte* to, std::size_t rest) noexcept {
  std::size_t done = 0;
  std::size_t piece = 0;
  do {
    piece = std::min({rest - done, available(), kPiece});
    const std::size_t at = position_ % bytes_.size();
    const std::size_t first = std::min(piece, bytes_.size() - at);
    if (to != nullptr && piece > 0) {
      std::memcpy(to + done, bytes_.data() + at, first);
      if (piece > first) std::memcpy(to + done + first, bytes_.data(), piece - first);
    }
    position_ += piece;
    done += piece;
    if (done == rest) position_ = base::whole_lines(position_);
    std::atomic_ref(control_->tail).store(position_);
  } while (piece > 0 && done < rest);
  return done;
}

bool RingReader::writer_blocked() const noexcept { return std::atomic_ref(control_->writer_blocked).load() != 0; }

}  // namespace kolo::transport
