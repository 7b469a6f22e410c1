#include "engine/request_check.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>

#include "engine/negotiation.h"
#include "engine/signature.h"
#include "kolo/error.h"
#include "kolo/spi/strides.h"

namespace kolo::engine {
namespace {

// None: more than can be counted.
std::optional<std::size_t> bytes_of(DType dtype, const std::vector<std::int64_t>& sizes) {
  std::size_t bytes = size_of(dtype);
  for (const auto extent : sizes) {
    if (__builtin_mul_overflow(bytes, static_cast<std::size_t>(extent), &bytes)) return std::nullopt;
  }
  return bytes;
}

// Empty: they are those of a dense tensor.
std::string trouble_with_strides(const std::vector<std::int64_t>& sizes, const std::vector<std::int64_t>& strides) {
  if (!strides.empty() && strides.size() != sizes.size()) {
    return std::to_string(strides.size()) + " strides for " + std::to_string(sizes.size()) + " sizes";
  }
  if (is_dense(sizes, strides)) return {};
  return "strides " + to_text(strides) + " of sizes " + to_text(sizes) +
         " leave gaps or overlap; pass a dense copy of the tensor";
}

}  // namespace

void check_name(const std::string& name) {
  if (name.empty()) throw UsageError("the name of a request is empty; ranks match requests by name");
  for (const std::string_view taken : {std::string_view("gradients/"), kHeardPrefix}) {
    if (!name.starts_with(taken)) continue;
    throw UsageError("request '" + name + "': names that begin with " + std::string(taken) +
                     " are reserved. Choose another name");
  }
}

std::string refusal_of(const Request& request, int size, Rank rank) {
  if (!request.refused.empty()) return request.refused;
  for (const auto extent : request.sizes) {
    if (extent < 0) return "negative size " + std::to_string(extent);
  }
  if (auto strides = trouble_with_strides(request.sizes, request.strides); !strides.empty()) return strides;
  if (request.kind == RequestKind::broadcast && (request.root < 0 || request.root >= size)) {
    return "root " + std::to_string(request.root) + " is not a rank of a world of " + std::to_string(size);
  }
  if (request.kind > RequestKind::barrier || request.dtype > DType::boolean || request.op > ReduceOp::product) {
    return "unknown kind, dtype or op (" + std::to_string(static_cast<int>(request.kind)) + ", " +
           std::to_string(static_cast<int>(request.dtype)) + ", " + std::to_string(static_cast<int>(request.op)) + ")";
  }
  const auto bytes = bytes_of(request.dtype, request.sizes);
  if (!bytes) return "sizes " + to_text(request.sizes) + " overflow";
  const bool reads =
      request.kind != RequestKind::barrier && (request.kind != RequestKind::broadcast || request.root == rank);
  if (reads && *bytes > 0 && request.input == nullptr) return "input is a null pointer";
  if (!std::isfinite(request.prescale) || !std::isfinite(request.postscale)) return "a scale is not finite";
  const bool scaled = request.prescale != 1.0 || request.postscale != 1.0;
  const bool floating = is_floating(request.dtype);
  if (request.kind == RequestKind::allreduce && scaled && !floating) return "scales need a floating-point dtype";
  return {};
}

std::string refusal_of(const std::vector<GradientInfo>& table, const ReducerOptions& options) {
  if (!options.refused.empty()) return options.refused;
  if (options.op != ReduceOp::sum && options.op != ReduceOp::average) {
    return "gradients can be reduced by sum or average, not by " + std::string(name_of(options.op));
  }
  if (!std::isfinite(options.prescale) || !std::isfinite(options.postscale)) return "gradients: a scale is not finite";
  const bool scaled = options.prescale != 1.0 || options.postscale != 1.0;
  for (const auto& row : table) {
    const auto refusal = [&row](const std::string& why) { return "gradient '" + row.name + "'" + why; };
    if (row.dtype > DType::boolean) return refusal(": unknown dtype " + std::to_string(static_cast<int>(row.dtype)));
    if (scaled && !is_floating(row.dtype)) return refusal(": scales need a floating-point dtype");
    if (row.on_device && options.device < 0) {
      return refusal(" is on a device, but ReducerOptions::device names none");
    }
    if (row.on_device && options.in_place_from > 0) {
      return refusal(" is on a device, but only gradients in CPU memory can be reduced in place");
    }
    if (std::ranges::any_of(row.sizes, [](auto extent) { return extent < 0; })) return refusal(": a negative size");
    if (auto strides = trouble_with_strides(row.sizes, row.strides); !strides.empty()) {
      return refusal(": " + strides);
    }
    if (!bytes_of(row.dtype, row.sizes)) return refusal(": sizes " + to_text(row.sizes) + " overflow");
  }
  return {};
}

std::string refusal_of(Algorithm algorithm, const Communicator& communicator) {
  if (algorithm == Algorithm::automatic) return {};
  AllreduceOptions options;
  options.count = 1;
  options.algorithm = algorithm;
  try {
    static_cast<void>(communicator.explain(options));
    return {};
  } catch (const UsageError& error) {
    return "KOLO_ALGORITHM=" + std::string(name_of(algorithm)) + ": " + error.what();
  }
}

}  // namespace kolo::engine
