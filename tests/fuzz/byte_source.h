#pragma once
// A fuzzer's input as a supply of values: whatever bytes come, they are numbers, texts and choices. When they run out
// everything is zero, so that every input ends.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

namespace kolo::fuzz {

class ByteSource {
 public:
  explicit ByteSource(std::span<const std::uint8_t> bytes) : left_(bytes) {}

  [[nodiscard]] bool empty() const noexcept { return left_.empty(); }
  template <class Number>
  Number number() {
    Number value{};
    const std::size_t count = std::min(sizeof(value), left_.size());
    if (count > 0) std::memcpy(&value, left_.data(), count);
    left_ = left_.subspan(count);
    return value;
  }
  // 0 to end - 1.
  std::size_t below(std::size_t end) { return number<std::uint8_t>() % end; }
  bool coin() { return below(2) == 1; }
  // Mostly short ones.
  std::size_t length() {
    const auto byte = number<std::uint8_t>();
    return std::min<std::size_t>(byte < 240 ? byte % 8 : number<std::uint8_t>(), left_.size());
  }
  std::string text() { return text(length()); }
  std::string text(std::size_t length) {
    const auto taken = left_.first(std::min(length, left_.size()));
    left_ = left_.subspan(taken.size());
    return {taken.begin(), taken.end()};
  }
  std::string rest() { return text(left_.size()); }
  template <class Number>
  std::vector<Number> numbers() {
    std::vector<Number> values(length());
    for (auto& value : values) value = number<Number>();
    return values;
  }

 private:
  std::span<const std::uint8_t> left_;
};

}  // namespace kolo::fuzz
