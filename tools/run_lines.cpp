#include "run_lines.h"

#include <algorithm>
#include <utility>

namespace kolo::tools {

std::string LineSplitter::add(std::string_view bytes) {
  std::string whole;
  while (!bytes.empty()) {
    if (bytes.front() == '\n') {
      whole += prefix_ + partial_ + '\n';
      partial_.clear();
      bytes.remove_prefix(1);
      continue;
    }
    if (partial_.size() == kLongest) whole += take_partial();
    const std::size_t taken = std::min(std::min(bytes.find('\n'), bytes.size()), kLongest - partial_.size());
    partial_.append(bytes.substr(0, taken));
    bytes.remove_prefix(taken);
  }
  return whole;
}

std::string LineSplitter::finish() { return partial_.empty() ? std::string() : take_partial(); }

std::string LineSplitter::take_partial() {
  std::string piece = prefix_ + std::exchange(partial_, {});
  if (!prefix_.empty()) piece += '\n';
  return piece;
}

}  // namespace kolo::tools
