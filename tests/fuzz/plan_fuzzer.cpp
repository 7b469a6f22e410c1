// The order that a peer observed, against this rank's table: refused exactly if it names a tensor that there is not, or
// one twice; else a plan that holds every tensor once, apart from the others, in buckets within their caps.
#include "engine/message_check.h"
#include "engine/plan.h"
#include "fuzz/byte_source.h"
#include "fuzz/property.h"

namespace {

using namespace kolo;
using namespace kolo::engine;

std::vector<GradientInfo> make_table(fuzz::ByteSource& source) {
  std::vector<GradientInfo> table(source.below(64));
  for (auto& row : table) {
    row.dtype = static_cast<DType>(source.below(static_cast<std::size_t>(DType::boolean) + 1));
    row.sizes = {source.number<std::uint16_t>()};
  }
  return table;
}

bool sensible(const std::vector<std::uint32_t>& order, std::size_t count) {
  std::vector<bool> seen(count, false);
  for (const auto index : order) {
    if (index >= count || seen[index]) return false;
    seen[index] = true;
  }
  return true;
}

void claim_bucket(const PlannedBucket& bucket, const std::vector<GradientInfo>& table, const PlanCaps& caps) {
  KOLO_CLAIM(!bucket.tensors.empty() && bucket.tensors.size() <= kMaxTensorsPerBucket && bucket.bytes % 64 == 0);
  KOLO_CLAIM(bucket.tensors.size() == 1 || bucket.bytes <= std::max(caps.bucket_bytes, caps.last_bucket_bytes));
  std::size_t end = 0;
  for (const auto& tensor : bucket.tensors) {
    KOLO_CLAIM(tensor.offset % 64 == 0 && tensor.offset >= end);
    KOLO_CLAIM(tensor.bytes == table[tensor.index].bytes() && table[tensor.index].dtype == bucket.dtype);
    end = tensor.offset + tensor.bytes;
  }
  KOLO_CLAIM(end <= bucket.bytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::ByteSource source({data, size});
  const auto table = make_table(source);
  const PlanCaps caps{source.number<std::uint32_t>(), source.number<std::uint16_t>()};
  std::vector<std::uint32_t> order;
  while (!source.empty())
    order.push_back(source.coin() ? source.number<std::uint32_t>() : source.number<std::uint8_t>());
  Plan plan;
  try {
    plan = build_plan(table, order, caps);
  } catch (const DamagedMessage&) {
    KOLO_CLAIM(!sensible(order, table.size()));
    return 0;
  }
  KOLO_CLAIM(sensible(order, table.size()));
  std::vector<int> times(table.size(), 0);
  for (const auto& bucket : plan.buckets) {
    claim_bucket(bucket, table, caps);
    for (const auto& tensor : bucket.tensors) ++times[tensor.index];
  }
  KOLO_CLAIM(std::all_of(times.begin(), times.end(), [](int count) { return count == 1; }));
  KOLO_CLAIM(build_plan(table, order, caps).buckets == plan.buckets);
  return 0;
}
