#include "torch/optimizer_settings.h"

#include <c10/util/Exception.h>
#include <c10/util/Type.h>
#include <torch/serialize/output-archive.h>

#include <array>
#include <charconv>
#include <sstream>
#include <string_view>

#include "torch/fingerprint.h"

namespace kolo {
namespace {

void print_learning_rate(std::ostream& out, const torch::optim::OptimizerOptions& options) {
  try {
    std::array<char, 32> shortest{};
    const auto end = std::to_chars(shortest.begin(), shortest.end(), options.get_lr()).ptr;
    out << " lr=" << std::string_view(shortest.begin(), end);
  } catch (const c10::Error&) {  // it has none
  }
}

void print_hash(std::ostream& out, const torch::optim::OptimizerOptions& options) {
  try {
    torch::serialize::OutputArchive archive;
    options.serialize(archive);
    std::ostringstream bytes;
    archive.save_to(bytes);
    out << " options=" << std::hex << fingerprint(bytes.str()) << std::dec;
  } catch (const c10::Error&) {  // it cannot be written
  }
}

}  // namespace

std::string settings_of(const torch::optim::Optimizer& optimizer) {
  std::ostringstream out;
  out << c10::demangle(typeid(optimizer).name());
  for (const auto& group : optimizer.param_groups()) {
    out << ',';
    if (!group.has_options()) continue;
    print_learning_rate(out, group.options());
    print_hash(out, group.options());
  }
  return out.str();
}

}  // namespace kolo
