// What a collective does, once everybody is there.
#include <algorithm>
#include <cstring>

#include "support/device/nccl_arithmetic.h"
#include "support/device/nccl_core.h"

namespace kolo::test {

std::string_view name_of(CallKind kind) {
  constexpr std::string_view kNames[] = {"all_reduce", "broadcast", "reduce", "all_gather", "reduce_scatter"};
  return kNames[static_cast<std::size_t>(kind)];
}

Extent extent_of(const NcclCall& call, int rank, int ranks) {
  const std::size_t bytes = call.count * size_of(call.type);
  const std::size_t all = bytes * static_cast<std::size_t>(ranks);
  const bool root = rank == call.root;
  switch (call.kind) {
    case CallKind::all_reduce:
      return {bytes, bytes};
    case CallKind::broadcast:
      return {root ? bytes : 0, bytes};
    case CallKind::reduce:
      return {bytes, root ? bytes : 0};
    case CallKind::all_gather:
      return {bytes, all};
    case CallKind::reduce_scatter:
      return {all, bytes};
  }
  return {};
}

std::string words_of(const NcclCall& call) {
  std::string text = std::string(name_of(call.kind)) + " of " + std::to_string(call.count) + " elements, type " +
                     std::to_string(static_cast<int>(call.type));
  if (call.kind != CallKind::broadcast && call.kind != CallKind::all_gather) {
    text += ", op " + std::to_string(static_cast<int>(call.op));
  }
  if (call.kind == CallKind::broadcast || call.kind == CallKind::reduce) text += ", root " + std::to_string(call.root);
  if (call.algorithm) text += *call.algorithm == SimulatedAlgorithm::ring ? ", ring" : ", tree";
  return text;
}

bool Meeting::ready() const {
  if (computed_ || spoiled_) return true;
  return std::all_of(sides_.begin(), sides_.end(), [](const Side& each) { return each.arrived && !each.left; });
}

void Meeting::wait_list(int side, std::vector<OperationId>& into) const {
  for (int other = 0; other < sides(); ++other) {
    if (other != side && at(other).id != 0 && !at(other).arrived) into.push_back(at(other).id);
  }
}

void Meeting::add_ids(std::vector<OperationId>& into) const {
  for (const Side& side : sides_) into.push_back(side.id);
}

std::string Meeting::missing() const {
  std::string text;
  for (int side = 0; side < sides(); ++side) {
    if (!at(side).joined) text += (text.empty() ? "side " : ", ") + std::to_string(side);
    if (at(side).left) text += (text.empty() ? "side " : ", ") + std::to_string(side) + " (aborted)";
  }
  return text.empty() ? text : text + " of " + name_;
}

std::vector<std::byte> Meeting::gathered() const {
  std::vector<std::byte> all;
  for (int side = 0; side < sides(); ++side) {
    const NcclCall& call = at(side).call;
    const std::size_t bytes = extent_of(call, side, sides()).in;
    all.insert(all.end(), call.in, call.in + bytes);
  }
  return all;
}

std::vector<std::byte> Meeting::reduced() const {
  std::vector<std::byte> sum;
  for (int side = 0; side < sides(); ++side) {
    const NcclCall& call = at(side).call;
    const std::vector<std::byte> own(call.in, call.in + extent_of(call, side, sides()).in);
    if (side == 0) {
      sum = own;
    } else {
      reduce_into(sum, own, call.type, call.op);
    }
  }
  return sum;
}

// All results at once, before anybody writes: it may be in place.
void Meeting::compute() {
  computed_ = true;
  const CallKind kind = at(0).call.kind;
  const bool reduces = kind == CallKind::all_reduce || kind == CallKind::reduce || kind == CallKind::reduce_scatter;
  const std::vector<std::byte> whole = reduces ? reduced() : gathered();
  for (int side = 0; side < sides(); ++side) {
    const std::size_t bytes = extent_of(at(side).call, side, sides()).out;
    const std::size_t first = kind == CallKind::reduce_scatter ? bytes * static_cast<std::size_t>(side) : 0;
    const auto begin = whole.begin() + static_cast<std::ptrdiff_t>(first);
    at(side).result.assign(begin, begin + static_cast<std::ptrdiff_t>(bytes));
  }
}

void Meeting::run(int side) {
  if (spoiled_) return;
  if (!computed_) compute();
  std::vector<std::byte>& result = at(side).result;
  if (!result.empty()) std::memcpy(at(side).call.out, result.data(), result.size());
  result.clear();
}

}  // namespace kolo::test
