#pragma once
// Where the lines of all ranks go: one stream of `kolo run`, that may be slower than they are.
#include <deque>
#include <string>

#include "base/unique_fd.h"

namespace kolo::tools {

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
  [[nodiscard]] bool broken() const { return broken_; }  // nobody reads any more; what is added is dropped

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
  bool broken_ = false;
};

}  // namespace kolo::tools
