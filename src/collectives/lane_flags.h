#pragma once
// Flag words in front of the first payload of a lane operation.
#include <cstring>
#include <span>

#include "collectives/reduction.h"

namespace kolo::collectives {

// Bytes of `flags` in a payload that goes on with `data_bytes`: data that does not fit beside them in the counter's
// line begins on a line of its own.
[[nodiscard]] inline std::size_t flag_bytes(const FlagWords& flags, std::size_t data_bytes) {
  const std::size_t bytes = flags.words.size() * sizeof(std::uint64_t);
  if (bytes + data_bytes <= kCacheLine - sizeof(std::uint64_t)) return bytes;
  return whole_lines(bytes);
}

inline void write_flags(const FlagWords& flags, std::byte* payload) {
  if (!flags.words.empty()) std::memcpy(payload, flags.words.data(), flags.words.size_bytes());
}

// Leaves the OR of all ranks' words in `flags`; true if that is a veto.
[[nodiscard]] inline bool read_flags(const FlagWords& flags, std::span<const std::byte* const> payloads) {
  for (std::size_t w = 0; w < flags.words.size(); ++w) {
    std::uint64_t all = 0;
    for (const std::byte* payload : payloads) {
      std::uint64_t word = 0;
      std::memcpy(&word, payload + w * sizeof(word), sizeof(word));
      all |= word;
    }
    flags.words[w] = all;
  }
  return flags.vetoed();
}

}  // namespace kolo::collectives
