#pragma once
// The output of one stream of one rank, line by line.
//
//   LineSplitter stream("[3] ");
//   stream.add("one\ntw");       // "[3] one\n"
//   stream.take_unfinished();    // "[3] tw"
//   stream.add("o\n");           // "o\n"
//
// A carriage return goes back to the start of the line, so the text behind it has a prefix of its own.
#include <cstddef>
#include <string>
#include <string_view>

namespace kolo::tools {

class LineSplitter {
 public:
  // The most bytes of an unfinished line that are kept. A longer line comes in pieces.
  static constexpr std::size_t kLongest = std::size_t{1} << 20;

  // `prefix` goes before each line, and each piece of a longer line becomes a line. With an empty prefix all bytes stay
  // as they are.
  explicit LineSplitter(std::string prefix = {}) : prefix_(std::move(prefix)) {}
  // The lines that `bytes` completes, with their prefixes.
  [[nodiscard]] std::string add(std::string_view bytes);
  // Whether bytes of a line without its newline are kept.
  [[nodiscard]] bool has_unfinished() const { return !partial_.empty(); }
  // These bytes, with their prefix and without a newline. The rest of the line will continue them.
  [[nodiscard]] std::string take_unfinished();
  // Whether the line that take_unfinished() began is still without its newline.
  [[nodiscard]] bool is_open() const { return open_; }
  // The reader has seen a newline after the open line: the rest of the line gets a prefix of its own.
  void close_line();
  // At the end of the stream: what is left, and the newline of the last line unless the prefix is empty.
  [[nodiscard]] std::string finish();

 private:
  enum class Missing { nothing, prefix, prefix_after_return };

  [[nodiscard]] std::string take_partial();
  void end_line(std::string& text);

  std::string prefix_;
  std::string partial_;                // as they came, without prefixes
  Missing missing_ = Missing::prefix;  // what goes before the next byte that is neither \r nor \n
  bool open_ = false;
};

}  // namespace kolo::tools
