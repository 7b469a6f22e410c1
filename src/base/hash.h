#pragma once
// XXH3 of bytes: for plans, tables and model layouts. Equal on every machine; not against malice.
#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace kolo::base {

struct Hash128 {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  auto operator<=>(const Hash128&) const = default;
};

[[nodiscard]] inline std::uint64_t hash64(std::span<const std::byte> bytes, std::uint64_t seed = 0) noexcept {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}
[[nodiscard]] inline std::uint64_t hash64(std::string_view text, std::uint64_t seed = 0) noexcept {
  return XXH3_64bits_withSeed(text.data(), text.size(), seed);
}
[[nodiscard]] inline Hash128 hash128(std::span<const std::byte> bytes, std::uint64_t seed = 0) noexcept {
  const XXH128_hash_t hash = XXH3_128bits_withSeed(bytes.data(), bytes.size(), seed);
  return {hash.high64, hash.low64};
}
[[nodiscard]] inline Hash128 hash128(std::string_view text, std::uint64_t seed = 0) noexcept {
  return hash128(std::as_bytes(std::span(text.data(), text.size())), seed);
}

// hash64() of bytes that come in pieces.
class StreamHash64 {
 public:
  StreamHash64() noexcept { XXH3_64bits_reset(&state_); }
  void add(std::span<const std::byte> bytes) noexcept { XXH3_64bits_update(&state_, bytes.data(), bytes.size()); }
  [[nodiscard]] std::uint64_t value() const noexcept { return XXH3_64bits_digest(&state_); }

 private:
  XXH3_state_t state_{};
};

}  // namespace kolo::base
