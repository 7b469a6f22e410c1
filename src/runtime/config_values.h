#pragma once
// Text to values and back, as people write them in an environment.
#include <array>
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace kolo::runtime {

// A whole number and a suffix, powers of 1024: "60K", "16M", "16MiB", "1G", "1GiB", "4096", "4096B". Case is free.
[[nodiscard]] std::optional<std::size_t> parse_bytes(std::string_view text);
// The shortest of the above: 16777216 is "16M".
[[nodiscard]] std::string print_bytes(std::size_t bytes);

// A whole number and a unit: "500ms", "30s", "10m", "2h"; "0" needs none.
[[nodiscard]] std::optional<std::chrono::milliseconds> parse_duration(std::string_view text);
[[nodiscard]] std::string print_duration(std::chrono::milliseconds duration);

[[nodiscard]] std::optional<long long> parse_integer(std::string_view text);

// What enumerators of DeviceReduction are called, in their order.
inline constexpr std::array<std::string_view, 5> kDeviceReductions{"auto", "nccl", "host", "hierarchical", "mixed"};

}  // namespace kolo::runtime
