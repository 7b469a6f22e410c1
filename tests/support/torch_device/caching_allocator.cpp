#include "support/torch_device/caching_allocator.h"

#include <algorithm>
#include <cstring>
#include <tuple>

#include "support/torch_device/backend.h"

namespace kolo::test {
namespace {

constexpr int kFreedByte = 0xdd;
constexpr std::chrono::seconds kPatience{10};

}  // namespace

bool CachingAllocator::Before::operator()(const Key& a, const Key& b) const {
  const auto order = [](const Key& key) {
    return std::make_tuple(key.first.device_index(), key.first.id(), key.second);
  };
  return order(a) < order(b);
}

c10::DataPtr CachingAllocator::allocate(std::size_t bytes) {
  int index = 0;
  check(api_.get_device(&index), "get_device");
  if (bytes == 0) return {nullptr, nullptr, &free_data, TorchDevice::at(index)};
  const c10::Stream stream = streams_.current(index);
  const std::scoped_lock held(lock_);
  collect();
  std::unique_ptr<TorchBlock> block;
  auto& candidates = free_[{stream, bytes}];
  if (candidates.empty()) {
    block = std::make_unique<TorchBlock>(TorchBlock{nullptr, bytes, stream, generation_});
    check(api_.allocate(&block->data, bytes), "allocate");
    allocated_.push_back(block->data);
  } else {
    block = std::move(candidates.back());
    candidates.pop_back();
    ++reused_;
  }
  ++live_;
  void* const data = block->data;
  return {data, block.release(), &free_data, TorchDevice::at(index)};
}

void CachingAllocator::record(const c10::DataPtr& data, const c10::Stream& stream) {
  const std::scoped_lock held(lock_);
  ++records_;
  if (ignores_records_ || data.get_deleter() != &free_data || data.get_context() == nullptr) return;
  auto& block = *static_cast<TorchBlock*>(data.get_context());
  const bool known = std::find(block.users.begin(), block.users.end(), stream) != block.users.end();
  if (stream != block.stream && !known) block.users.push_back(stream);
}

void CachingAllocator::free_data(void* data) {
  std::unique_ptr<TorchBlock> block(static_cast<TorchBlock*>(data));
  const auto installed = find_backend();
  if (installed != nullptr && installed->generation == block->generation) {
    installed->allocator.free(std::move(block));
  }
}

void CachingAllocator::free(std::unique_ptr<TorchBlock> block) {
  const std::scoped_lock held(lock_);
  --live_;
  for (const c10::Stream& user : block->users) {
    const OnDevice here(api_, user.device_index());
    cuda::EventHandle end = nullptr;
    check(api_.event_create(&end, cuda::kEventDisableTiming), "event_create");
    check(api_.event_record(end, streams_.handle(user)), "event_record");
    block->ends.push_back({user, end});
  }
  block->users.clear();
  if (block->ends.empty()) {
    put_back(std::move(block));
  } else {
    in_use_.push_back(std::move(block));
  }
  freed_.notify_all();
}

// What the host has seen to have passed is before what it enqueues from now on. That is said once more by a wait, which
// waits for nothing any more, so that it holds too where polls order nothing (DeviceOptions::polls_order).
bool CachingAllocator::has_passed(const TorchBlock& block, const StreamEnd& end) {
  const cuda::Status status = api_.event_query(end.event);
  if (status == cuda::kNotReady) return false;
  check(status, "event_query");
  check(api_.stream_wait_event(streams_.handle(block.stream), end.event, 0), "stream_wait_event");
  check(api_.event_destroy(end.event), "event_destroy");
  return true;
}

void CachingAllocator::collect() {
  std::vector<c10::Stream> behind;  // what was freed later has not passed either
  for (auto& block : in_use_) {
    const OnDevice here(api_, block->stream.device_index());
    std::erase_if(block->ends, [&](const StreamEnd& end) {
      if (std::find(behind.begin(), behind.end(), end.stream) != behind.end()) return false;
      if (has_passed(*block, end)) return true;
      behind.push_back(end.stream);
      return false;
    });
    if (block->ends.empty()) put_back(std::move(block));
  }
  std::erase(in_use_, nullptr);
}

void CachingAllocator::put_back(std::unique_ptr<TorchBlock> block) {
  queue_overwrite(*block);
  const Key key{block->stream, block->bytes};
  free_[key].push_back(std::move(block));
}

void CachingAllocator::queue_overwrite(const TorchBlock& block) {
  const OnDevice here(api_, block.stream.device_index());
  Operation operation{.what = "end of a tensor", .ranges = {{block.data, block.bytes, Access::write}}};
  operation.run = [data = block.data, bytes = block.bytes] { std::memset(data, kFreedByte, bytes); };
  device_.enqueue(streams_.handle(block.stream), std::move(operation));
}

void CachingAllocator::ignore_records() {
  const std::scoped_lock held(lock_);
  ignores_records_ = true;
}

int CachingAllocator::records() const {
  const std::scoped_lock held(lock_);
  return records_;
}

int CachingAllocator::reused() const {
  const std::scoped_lock held(lock_);
  return reused_;
}

std::size_t CachingAllocator::live() const {
  const std::scoped_lock held(lock_);
  return live_;
}

std::size_t CachingAllocator::close() {
  std::unique_lock held(lock_);
  freed_.wait_for(held, kPatience, [this] { return live_ == 0; });
  streams_.synchronize(-1);
  collect();
  streams_.synchronize(-1);
  for (void* const data : std::exchange(allocated_, {})) api_.release(data);
  return live_;
}

}  // namespace kolo::test
