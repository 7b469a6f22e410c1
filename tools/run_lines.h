#pragma once
// The output of one stream of one rank, as whole lines.
#include <string>
#include <string_view>

namespace kolo::tools {

class LineSplitter {
 public:
  // Longer ones are cut, so that a program without newlines does not fill the memory.
  static constexpr std::size_t kLongest = std::size_t{1} << 20;

  // `prefix` goes before each line.
  explicit LineSplitter(std::string prefix = {}) : prefix_(std::move(prefix)) {}
  // The lines that `bytes` completes, each with its prefix and a newline.
  [[nodiscard]] std::string add(std::string_view bytes);
  // What is left at the end of the stream: the last line, where it has no newline of its own.
  [[nodiscard]] std::string finish();

 private:
  std::string prefix_;
  std::string partial_;
};

}  // namespace kolo::tools
