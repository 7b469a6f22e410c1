#include "engine/signature.h"

#include <algorithm>
#include <sstream>

namespace kolo::engine {
namespace {

std::string kind_name(Kind kind) {
  switch (kind) {
    case Kind::allreduce:
      return "allreduce";
    case Kind::broadcast:
      return "broadcast";
    case Kind::allgather:
      return "allgather";
    case Kind::barrier:
      return "barrier";
    case Kind::gradient_round:
      return "gradients";
  }
  return "?";
}

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> result;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) result.push_back(line);
  return result;
}

// "tensor <name>: ..." -> the part before the last ": ", which tells rows of different tensors apart.
std::string row_name(const std::string& row) { return row.substr(0, row.rfind(": ")); }

bool has_row(const std::vector<std::string>& rows, const std::string& name) {
  return std::any_of(rows.begin(), rows.end(), [&](const auto& row) { return row_name(row) == name; });
}

// The first difference of two tables, in words: a tensor that one side lacks, else a row that differs.
std::string table_difference(const Conflict& conflict) {
  const auto first = lines(conflict.first.table);
  const auto second = lines(conflict.second.table);
  const auto lacks = [](const std::string& row, Rank has, Rank lacking) {
    return row_name(row) + " exists on rank " + std::to_string(has) + " but not on rank " + std::to_string(lacking);
  };
  for (std::size_t i = 0; i < std::max(first.size(), second.size()); ++i) {
    if (i < first.size() && i < second.size() && first[i] == second[i]) continue;
    if (i < first.size() && !has_row(second, row_name(first[i]))) {
      return lacks(first[i], conflict.first_rank, conflict.second_rank);
    }
    if (i < second.size() && !has_row(first, row_name(second[i]))) {
      return lacks(second[i], conflict.second_rank, conflict.first_rank);
    }
    if (i < first.size() && i < second.size()) {
      return "row " + std::to_string(i) + " is \"" + first[i] + "\" on rank " + std::to_string(conflict.first_rank) +
             " and \"" + second[i] + "\" on rank " + std::to_string(conflict.second_rank);
    }
  }
  return "tables differ";
}

// On one line: a line is a row, and rows must not be made up by a name.
std::string on_one_line(const std::string& text) {
  std::string result;
  for (const char character : text) {
    if (character == '\n') {
      result += "\\n";
    } else if (character == '\\') {
      result += "\\\\";
    } else {
      result += character;
    }
  }
  return result;
}

template <class Value>
void difference(std::string& text, const char* what, const Value& first, const Value& second,
                const Conflict& conflict) {
  if (first == second) return;
  std::ostringstream out;
  out.precision(17);  // two that differ look different
  out << (text.empty() ? "" : "; ") << what << " " << first << " on rank " << conflict.first_rank << ", " << second
      << " on rank " << conflict.second_rank;
  text += out.str();
}

}  // namespace

std::string to_text(const std::vector<std::int64_t>& values) {
  std::string text = "[";
  for (std::size_t i = 0; i < values.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(values[i]);
  return text + "]";
}

std::string ranks_text(const std::vector<Rank>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  const std::size_t shown = std::min<std::size_t>(ranks.size(), 16);
  for (std::size_t i = 0; i < shown; ++i) text += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
  if (shown < ranks.size()) text += " and " + std::to_string(ranks.size() - shown) + " more";
  return text;
}

Signature signature_of(const Request& request) {
  return {.kind = static_cast<Kind>(request.kind),
          .dtype = request.dtype,
          .sizes = request.sizes,
          .strides = request.strides,
          .op = request.op,
          .prescale = request.prescale,
          .postscale = request.postscale,
          .root = request.root,
          .table = {}};
}

std::string table_text(const std::vector<GradientInfo>& table, const ReducerOptions& options) {
  std::ostringstream out;
  out.precision(17);
  out << "settings: " << name_of(options.op) << ", prescale " << options.prescale << ", postscale " << options.postscale
      << ", bucket bytes " << options.bucket_bytes << ", in place from " << options.in_place_from
      << (options.settings.empty() ? "" : ", ") << on_one_line(options.settings) << "\n";
  for (const auto& row : table) {
    out << "tensor " << on_one_line(row.name) << ": " << name_of(row.dtype) << " sizes " << to_text(row.sizes)
        << " strides " << to_text(row.strides) << (row.on_device ? " on a device" : "") << "\n";
  }
  return out.str();
}

bool agree(const Signature& mine, const Signature& theirs) {
  if (mine.kind != Kind::allgather || theirs.kind != Kind::allgather) return mine == theirs;
  if (mine.sizes.size() != theirs.sizes.size()) return false;
  Signature levelled = theirs;
  if (!mine.sizes.empty()) levelled.sizes[0] = mine.sizes[0];
  return mine == levelled;
}

std::string describe(const std::string& name, const Conflict& conflict) {
  std::string text;
  const auto& [first, first_rank, second, second_rank] = conflict;
  difference(text, "operation", kind_name(first.kind), kind_name(second.kind), conflict);
  difference(text, "dtype", name_of(first.dtype), name_of(second.dtype), conflict);
  difference(text, "shape", to_text(first.sizes), to_text(second.sizes), conflict);
  difference(text, "strides", to_text(first.strides), to_text(second.strides), conflict);
  difference(text, "reduction", name_of(first.op), name_of(second.op), conflict);
  difference(text, "prescale", first.prescale, second.prescale, conflict);
  difference(text, "postscale", first.postscale, second.postscale, conflict);
  difference(text, "root", first.root, second.root, conflict);
  if (text.empty()) text = table_difference(conflict);
  return "ranks disagree on '" + name + "': " + text;
}

}  // namespace kolo::engine
