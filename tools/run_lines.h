#pragma once
// The output of one stream of one rank, as whole lines.
#include <string>
#include <string_view>

namespace kolo::tools {

class LineSplitter {
 public:
  // Longer ones come in pieces, so that a program without newlines does not fill the memory.
  static constexpr std::size_t kLongest = std::size_t{1} << 20;

  // `prefix` goes before each line, and each piece of one becomes a line. Without a prefix all bytes are as they were.
  explicit LineSplitter(std::string prefix = {}) : prefix_(std::move(prefix)) {}
  // The lines that `bytes` completes, each with its prefix and its newline.
  [[nodiscard]] std::string add(std::string_view bytes);
  // What is left at the end of the stream: the last line, where it has no newline of its own.
  [[nodiscard]] std::string finish();

 private:
  // What is there of a line, without a newline of its own.
  [[nodiscard]] std::string take_partial();

  std::string prefix_;
  std::string partial_;
};

}  // namespace kolo::tools
