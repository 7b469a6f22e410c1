#include "kolo/types.h"

#include <array>

#include "base/strings.h"
#include "kolo/error.h"

namespace kolo {
namespace {

struct DTypeRow {
  std::string_view name;
  std::size_t size;
};

// In the order of the enum.
constexpr std::array<DTypeRow, 10> kDTypes{{{"f32", 4},
                                            {"f64", 8},
                                            {"f16", 2},
                                            {"bf16", 2},
                                            {"i8", 1},
                                            {"u8", 1},
                                            {"i16", 2},
                                            {"i32", 4},
                                            {"i64", 8},
                                            {"bool", 1}}};
constexpr std::array<std::string_view, 8> kAlgorithms{
    "auto", "direct", "ring", "tree", "halving_doubling", "recursive_doubling", "hierarchical", "mpi"};
constexpr std::array<std::string_view, 5> kReduceOps{"sum", "average", "min", "max", "product"};

[[noreturn]] void refuse(std::string_view what, std::string_view text, const std::string& known) {
  throw UsageError(std::string(what) + " '" + std::string(text) + "' is unknown; known are " + known);
}

}  // namespace

std::size_t size_of(DType dtype) noexcept {
  const auto index = static_cast<std::size_t>(dtype);
  return index < kDTypes.size() ? kDTypes[index].size : 0;
}

std::string_view name_of(DType dtype) noexcept {
  const auto index = static_cast<std::size_t>(dtype);
  return index < kDTypes.size() ? kDTypes[index].name : "?";
}

std::string_view name_of(ReduceOp op) noexcept {
  const auto index = static_cast<std::size_t>(op);
  return index < kReduceOps.size() ? kReduceOps[index] : "?";
}

std::string_view name_of(Algorithm algorithm) noexcept {
  const auto index = static_cast<std::size_t>(algorithm);
  return index < kAlgorithms.size() ? kAlgorithms[index] : "?";
}

DType parse_dtype(std::string_view text) {
  std::array<std::string_view, kDTypes.size()> names;
  for (std::size_t i = 0; i < kDTypes.size(); ++i) {
    if (kDTypes[i].name == text) return static_cast<DType>(i);
    names[i] = kDTypes[i].name;
  }
  refuse("dtype", text, base::join(names, ", "));
}

ReduceOp parse_reduce_op(std::string_view text) {
  for (std::size_t i = 0; i < kReduceOps.size(); ++i) {
    if (kReduceOps[i] == text) return static_cast<ReduceOp>(i);
  }
  refuse("reduction", text, base::join(kReduceOps, ", "));
}

}  // namespace kolo
