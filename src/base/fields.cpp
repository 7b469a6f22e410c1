#include "base/fields.h"

#include <algorithm>

namespace kolo::base {

std::string join_fields(std::vector<std::string> fields) {
  std::string line;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    std::ranges::replace_if(
        fields[i], [](char c) { return c == '\t' || c == '\n' || c == '\r'; }, ' ');
    line += (i == 0 ? "" : "\t") + fields[i];
  }
  return line;
}

std::vector<std::string> split_fields(std::string_view line) {
  std::vector<std::string> fields;
  for (std::size_t end = line.find('\t'); end != std::string_view::npos; end = line.find('\t')) {
    fields.emplace_back(line.substr(0, end));
    line.remove_prefix(end + 1);
  }
  fields.emplace_back(line);
  return fields;
}

std::string rank_text(std::size_t rank, const std::string& host) {
  return "rank " + std::to_string(rank) + " (" + host + ")";
}

}  // namespace kolo::base
