#include "run_lines.h"

#include <algorithm>
#include <utility>

namespace kolo::tools {

std::string LineSplitter::add(std::string_view bytes) {
  std::string whole;
  while (!bytes.empty()) {
    if (bytes.front() == '\n') {
      whole += take_partial();
      if (missing_ == Missing::prefix) whole += prefix_;  // an empty line
      end_line(whole);
      bytes.remove_prefix(1);
      continue;
    }
    if (partial_.size() == kLongest) {
      whole += take_partial();
      if (!prefix_.empty()) end_line(whole);
    }
    const std::size_t taken = std::min(std::min(bytes.find('\n'), bytes.size()), kLongest - partial_.size());
    partial_.append(bytes.substr(0, taken));
    bytes.remove_prefix(taken);
  }
  return whole;
}

std::string LineSplitter::take_unfinished() {
  open_ = open_ || !partial_.empty();
  return take_partial();
}

void LineSplitter::close_line() {
  open_ = false;
  missing_ = Missing::prefix;
}

std::string LineSplitter::finish() {
  const bool has_line = open_ || !partial_.empty();
  std::string text = take_partial();
  if (has_line && !prefix_.empty()) end_line(text);
  return text;
}

std::string LineSplitter::take_partial() {
  std::string text;
  for (std::string_view rest = partial_; !rest.empty();) {
    if (rest.front() == '\r') {
      if (std::exchange(missing_, Missing::prefix_after_return) == Missing::prefix) text += prefix_;
      text += '\r';
      rest.remove_prefix(1);
      continue;
    }
    if (std::exchange(missing_, Missing::nothing) != Missing::nothing) text += prefix_;
    const std::size_t taken = std::min(rest.find('\r'), rest.size());
    text += rest.substr(0, taken);
    rest.remove_prefix(taken);
  }
  partial_.clear();
  return text;
}

void LineSplitter::end_line(std::string& text) {
  text += '\n';
  close_line();
}

}  // namespace kolo::tools
