#include "engine/plan.h"

#include <algorithm>
#include <map>
#include <utility>

#include "engine/message_check.h"

namespace kolo::engine {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kBucketBytes = std::size_t{16} << 20;
constexpr std::size_t kNetworkBucketBytes = std::size_t{8} << 20;  // a slow link that starts earlier ends earlier

std::size_t aligned(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

std::vector<std::uint32_t> complete_order(const std::vector<std::uint32_t>& order, std::size_t count) {
  std::vector<std::uint32_t> result;
  std::vector<bool> seen(count, false);
  for (const auto index : order) {
    if (index >= count || seen[index]) {
      throw DamagedMessage("malformed control message: the order of " + std::to_string(count) +
                           " gradients has index " + std::to_string(index) + (index >= count ? "" : " twice"));
    }
    seen[index] = true;
    result.push_back(index);
  }
  for (std::size_t index = count; index-- > 0;) {
    if (!seen[index]) result.push_back(static_cast<std::uint32_t>(index));
  }
  return result;
}

// Where the tail begins: the last tensors, at least one, that fit into the last bucket's cap.
std::size_t tail_start(const std::vector<GradientInfo>& table, const std::vector<std::uint32_t>& order,
                       std::size_t cap) {
  std::size_t start = order.size();
  for (std::size_t bytes = 0; start > 0; --start) {
    bytes += aligned(table[order[start - 1]].bytes());
    if (bytes > cap && start < order.size()) break;
  }
  return start;
}

class Packer {
 public:
  Packer(const std::vector<GradientInfo>& table, std::size_t cap) : table_(table), cap_(cap) {}

  void add(std::uint32_t index) {
    auto& bucket = open_[{table_[index].on_device, table_[index].dtype}];
    const std::size_t bytes = aligned(table_[index].bytes());
    const bool full = bucket.bytes + bytes > cap_ || bucket.tensors.size() == kMaxTensorsPerBucket;
    if (full && !bucket.tensors.empty()) close(bucket);
    bucket.dtype = table_[index].dtype;
    bucket.on_device = table_[index].on_device;
    bucket.tensors.push_back({index, bucket.bytes, table_[index].bytes()});
    bucket.bytes += bytes;
  }

  void close_all() {
    for (auto& [kind, bucket] : open_) {
      if (!bucket.tensors.empty()) close(bucket);
    }
  }

  [[nodiscard]] std::vector<PlannedBucket> take() { return std::move(closed_); }

 private:
  void close(PlannedBucket& bucket) {
    closed_.push_back(std::move(bucket));
    bucket = {};
  }

  const std::vector<GradientInfo>& table_;
  std::size_t cap_;
  std::map<std::pair<bool, DType>, PlannedBucket> open_;
  std::vector<PlannedBucket> closed_;
};

}  // namespace

PlanCaps caps_of(const Config& config, std::size_t bucket_bytes, bool by_network) noexcept {
  PlanCaps caps{bucket_bytes != 0 ? bucket_bytes : config.bucket_bytes, 0};
  if (caps.bucket_bytes == 0) caps.bucket_bytes = by_network ? kNetworkBucketBytes : kBucketBytes;
  caps.last_bucket_bytes = std::min(config.last_bucket_bytes, caps.bucket_bytes);
  return caps;
}

Plan build_plan(const std::vector<GradientInfo>& table, const std::vector<std::uint32_t>& order, const PlanCaps& caps) {
  const auto whole = complete_order(order, table.size());
  const std::size_t tail = tail_start(table, whole, caps.last_bucket_bytes);
  Packer packer(table, caps.bucket_bytes);
  for (std::size_t i = 0; i < tail; ++i) packer.add(whole[i]);
  packer.close_all();
  for (std::size_t i = tail; i < whole.size(); ++i) packer.add(whole[i]);
  packer.close_all();
  return {packer.take()};
}

}  // namespace kolo::engine
