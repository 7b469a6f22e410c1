#pragma once
// Where the lines of all ranks go: one stream of `kolo run`, that may be slower than they are.
#include <deque>
#include <string>

#include "base/unique_fd.h"

namespace kolo::tools {

// Those of standard input, output and error that are closed become /dev/null: else the next file that is opened gets
// the number, and what is meant for the stream goes there. Throws std::runtime_error.
void open_standard_streams();

class Output {
 public:
  explicit Output(int descriptor);

  // `rank` is granted `cost` again when the text has been written.
  struct Written {
    int rank = -1;
    std::size_t cost = 0;
  };
  void add(std::string text, Written written);
  // Writes what can be written without waiting. Returns whom to tell.
  std::deque<Written> write_some();

  [[nodiscard]] int descriptor() const { return descriptor_; }
  [[nodiscard]] bool empty() const { return pieces_.empty(); }
  // errno of the write that failed (EPIPE: nobody reads any more), from which on what is added is dropped; 0: none has.
  [[nodiscard]] int error() const { return error_; }

 private:
  struct Piece {
    std::string text;
    Written written;
  };
  [[nodiscard]] bool write_front();

  base::UniqueFd own_;  // of a terminal
  int descriptor_;
  std::deque<Piece> pieces_;
  std::size_t offset_ = 0;  // of the first piece, written
  int error_ = 0;
};

}  // namespace kolo::tools
