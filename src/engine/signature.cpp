#include "engine/signature.h"

#include <algorithm>
#include <span>
#include <sstream>
#include <string_view>
#include <unordered_set>

#include "base/strings.h"
#include "kolo/spi/strides.h"

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

// Of a text with separators between them, and perhaps one at its end.
std::vector<std::string> parts(std::string_view text, std::string_view separator) {
  std::vector<std::string> result;
  while (!text.empty()) {
    const auto end = std::min(text.find(separator), text.size());
    result.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + separator.size(), text.size()));
  }
  return result;
}

// "tensor <name>: ..." -> the part before the last ": ", which tells rows of different tensors apart.
std::string row_name(const std::string& row) { return row.substr(0, row.rfind(": ")); }

std::unordered_set<std::string> row_names(const std::vector<std::string>& rows) {
  std::unordered_set<std::string> names;
  for (const auto& row : rows) names.insert(row_name(row));
  return names;
}

// The first tensor that one side lacks; empty: there is none.
std::string lacking(const std::vector<std::string>& first, const std::vector<std::string>& second,
                    const Conflict& conflict) {
  const auto lacks = [](const std::string& row, Rank has, Rank without) {
    return row_name(row) + " exists on rank " + std::to_string(has) + " but not on rank " + std::to_string(without);
  };
  const auto in_first = row_names(first);
  const auto in_second = row_names(second);
  for (std::size_t i = 0; i < std::max(first.size(), second.size()); ++i) {
    if (i < first.size() && !in_second.contains(row_name(first[i]))) {
      return lacks(first[i], conflict.first_rank, conflict.second_rank);
    }
    if (i < second.size() && !in_first.contains(row_name(second[i]))) {
      return lacks(second[i], conflict.second_rank, conflict.first_rank);
    }
  }
  return {};
}

constexpr std::string_view kSettings = "settings: ";

// What of a row of settings the other one has not: "lr=0.5 options=3f".
std::string settings_beyond(std::string_view row, std::string_view other) {
  const auto theirs = parts(other.substr(kSettings.size()), ", ");
  const std::unordered_set<std::string> all(theirs.begin(), theirs.end());
  std::vector<std::string> beyond;
  for (const auto& setting : parts(row.substr(kSettings.size()), ", ")) {
    if (!all.contains(setting)) beyond.push_back(setting);
  }
  return base::join(beyond, ", ");
}

// The first of several settings, and how many more there are.
std::string shortened(const std::string& settings) {
  constexpr std::size_t kShown = 8;
  const auto all = parts(settings, ", ");
  if (all.size() <= kShown) return settings;
  const std::vector<std::string> shown(all.begin(), all.begin() + kShown);
  return base::join(shown, ", ") + " and " + std::to_string(all.size() - kShown) + " more";
}

// Only the settings that differ, with both ranks. Empty: they do not, but one is there several times.
std::string settings_difference(const std::string& first, const std::string& second, const Conflict& conflict) {
  const std::string mine = shortened(settings_beyond(first, second));
  const std::string theirs = shortened(settings_beyond(second, first));
  const std::string here = "on rank " + std::to_string(conflict.first_rank);
  const std::string there = "on rank " + std::to_string(conflict.second_rank);
  if (mine.empty() && theirs.empty()) return {};
  if (theirs.empty()) return "settings are \"" + mine + "\" " + here + " and not " + there;
  if (mine.empty()) return "settings are \"" + theirs + "\" " + there + " and not " + here;
  return "settings are \"" + mine + "\" " + here + " and \"" + theirs + "\" " + there;
}

// The first difference of two tables, in words: a tensor that one side lacks, else a row that differs.
std::string table_difference(const Conflict& conflict) {
  const auto first = parts(conflict.first.table, "\n");
  const auto second = parts(conflict.second.table, "\n");
  if (auto text = lacking(first, second, conflict); !text.empty()) return text;
  for (std::size_t i = 0; i < std::min(first.size(), second.size()); ++i) {
    if (first[i] == second[i]) continue;
    if (i == 0) {
      if (auto text = settings_difference(first[i], second[i], conflict); !text.empty()) return text;
    }
    return (i == 0 ? "settings are \"" : "row " + std::to_string(i) + " is \"") + first[i] + "\" on rank " +
           std::to_string(conflict.first_rank) + " and \"" + second[i] + "\" on rank " +
           std::to_string(conflict.second_rank);
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

namespace {

// Empty for contiguous ones, as most are.
std::vector<std::int64_t> strides_of(const Request& request) {
  if (request.strides.empty()) return {};
  auto strides = canonical_strides(request.sizes, request.strides);
  if (strides == contiguous_strides(request.sizes)) strides.clear();
  return strides;
}

// Whether two ranks' parts of an allgather lie alike, whatever their first sizes.
bool same_inner_layout(const Signature& a, const Signature& b) {
  const auto has_elements = [](const Signature& of) { return std::ranges::find(of.sizes, 0) == of.sizes.end(); };
  if (!has_elements(a) || !has_elements(b)) return true;
  const auto first = canonical_strides(a.sizes, a.strides);
  const auto second = canonical_strides(b.sizes, b.strides);
  const std::size_t from = a.sizes[0] == 1 || b.sizes[0] == 1 ? 1 : 0;
  return std::ranges::equal(std::span(first).subspan(from), std::span(second).subspan(from));
}

}  // namespace

Signature signature_of(const Request& request) {
  return {.kind = static_cast<Kind>(request.kind),
          .dtype = request.dtype,
          .sizes = request.sizes,
          .strides = strides_of(request),
          .op = request.op,
          .prescale = request.prescale,
          .postscale = request.postscale,
          .root = request.root,
          .table = {}};
}

std::string table_text(const std::vector<GradientInfo>& table, const ReducerOptions& options) {
  std::ostringstream out;
  out.precision(17);
  out << kSettings << name_of(options.op) << ", prescale " << options.prescale << ", postscale " << options.postscale
      << ", bucket bytes " << options.bucket_bytes << ", in place from " << options.in_place_from
      << (options.settings.empty() ? "" : ", ") << on_one_line(options.settings) << "\n";
  for (const auto& row : table) {
    out << "tensor " << on_one_line(row.name) << ": " << name_of(row.dtype) << " sizes " << to_text(row.sizes)
        << " strides " << to_text(canonical_strides(row.sizes, row.strides)) << (row.on_device ? " on a device" : "")
        << "\n";
  }
  return out.str();
}

bool agree(const Signature& mine, const Signature& theirs) {
  if (mine.kind != Kind::allgather || theirs.kind != Kind::allgather) return mine == theirs;
  if (mine.sizes.size() != theirs.sizes.size()) return false;
  Signature levelled = theirs;
  if (!mine.sizes.empty()) {
    levelled.sizes[0] = mine.sizes[0];
    if (same_inner_layout(mine, theirs)) levelled.strides = mine.strides;
  }
  return mine == levelled;
}

std::string describe(const std::string& name, const Conflict& conflict) {
  std::string text;
  const auto& [first, first_rank, second, second_rank] = conflict;
  difference(text, "operation", kind_name(first.kind), kind_name(second.kind), conflict);
  difference(text, "dtype", name_of(first.dtype), name_of(second.dtype), conflict);
  difference(text, "shape", to_text(first.sizes), to_text(second.sizes), conflict);
  if (first.strides != second.strides) {
    difference(text, "strides", to_text(canonical_strides(first.sizes, first.strides)),
               to_text(canonical_strides(second.sizes, second.strides)), conflict);
  }
  difference(text, "reduction", name_of(first.op), name_of(second.op), conflict);
  difference(text, "prescale", first.prescale, second.prescale, conflict);
  difference(text, "postscale", first.postscale, second.postscale, conflict);
  difference(text, "root", first.root, second.root, conflict);
  if (text.empty()) text = table_difference(conflict);
  return "ranks disagree on '" + name + "': " + text;
}

}  // namespace kolo::engine
