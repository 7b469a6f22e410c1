// First only a fingerprint of every rank's table goes round; the tables themselves only when two differ.
#include <sstream>

#include "kolo/context.h"
#include "kolo/error.h"
#include "kolo/spi/strides.h"
#include "kolo/torch/broadcast.h"
#include "torch/fingerprint.h"

namespace kolo {
namespace {

constexpr const char* kUndefined = "undefined";

// As host_form() lays the tensor out.
std::vector<std::int64_t> strides_as_sent(const at::Tensor& tensor) {
  if (!tensor.is_non_overlapping_and_dense()) return kolo::contiguous_strides(tensor.sizes());
  return canonical_strides(tensor.sizes(), tensor.strides());
}

// One line a tensor: its name, a tab, what it is.
std::string table_text(const NamedTensors& tensors) {
  std::ostringstream text;
  for (const auto& [name, tensor] : tensors) {
    text << name << '\t';
    if (!tensor.defined()) {
      text << kUndefined << '\n';
      continue;
    }
    text << c10::toString(tensor.scalar_type());
    if (tensor.is_nested()) {
      text << " nested\n";
      continue;
    }
    text << " sizes " << tensor.sizes();
    if (tensor.layout() == c10::kStrided) {
      text << " strides " << c10::IntArrayRef(strides_as_sent(tensor));
    } else {
      text << " layout " << tensor.layout();
    }
    text << '\n';
  }
  return text.str();
}

std::string describe_line(const std::string& line) {
  const auto tab = line.find('\t');
  return tab == std::string::npos ? "no such tensor" : "'" + line.substr(0, tab) + "' as " + line.substr(tab + 1);
}

[[noreturn]] void report_difference(const std::vector<std::string>& tables) {
  std::size_t rank = 1;
  while (rank < tables.size() && tables[rank] == tables[0]) {
    ++rank;
  }
  std::istringstream first(tables[0]);
  std::istringstream other(rank < tables.size() ? tables[rank] : std::string());
  std::string first_line;
  std::string other_line;
  std::size_t position = 0;
  for (;; ++position) {
    first_line.clear();
    other_line.clear();
    const bool more =
        static_cast<bool>(std::getline(first, first_line)) | static_cast<bool>(std::getline(other, other_line));
    if (!more || first_line != other_line) {
      break;
    }
  }
  throw MismatchError("the models differ at tensor " + std::to_string(position) + ": rank 0 has " +
                      describe_line(first_line) + ", rank " + std::to_string(rank) + " has " +
                      describe_line(other_line));
}

}  // namespace

void verify_model(Context& context, const NamedTensors& tensors) {
  const std::string table = table_text(tensors);
  const auto fingerprints = gather_texts(context, "verify_model", std::to_string(fingerprint(table)));
  for (const auto& other : fingerprints) {
    if (other != fingerprints.front()) {
      report_difference(gather_texts(context, "verify_model, tables", table));
    }
  }
}

}  // namespace kolo
