#include "run_lines.h"

namespace kolo::tools {

std::string LineSplitter::add(std::string_view bytes) {
  std::string whole;
  while (!bytes.empty()) {
    const std::size_t newline = bytes.find('\n');
    const std::size_t room = kLongest - partial_.size();
    const std::size_t taken = std::min(newline == std::string_view::npos ? bytes.size() : newline, room);
    partial_.append(bytes.substr(0, taken));
    bytes.remove_prefix(taken);
    const bool ended = !bytes.empty() && bytes.front() == '\n';
    if (ended) bytes.remove_prefix(1);
    if (ended || partial_.size() == kLongest) {
      whole += prefix_ + partial_ + '\n';
      partial_.clear();
    }
  }
  return whole;
}

std::string LineSplitter::finish() {
  if (partial_.empty()) return {};
  std::string last = prefix_ + partial_ + '\n';
  partial_.clear();
  return last;
}

}  // namespace kolo::tools
