#include "engine/named_executor.h"

#include <algorithm>
#include <cstring>

#include "engine/ready_list.h"
#include "engine/signature.h"
#include "kolo/error.h"

namespace kolo::engine {
namespace {

constexpr std::size_t kAlignment = 64;

std::size_t bytes_of(const Request& request) { return payload_bytes(signature_of(request)); }

std::string key_of(const std::vector<Pending>& pending) {
  std::string key;
  for (const auto& [request, work] : pending) {
    key += request.name + '\n' + std::to_string(bytes_of(request)) + '\n';
  }
  return key;
}

}  // namespace

void NamedExecutor::start(const Item& item, std::vector<Pending> pending) {
  Running running;
  running.pending = std::move(pending);
  running.sequence = item.sequence;
  running.since = std::chrono::steady_clock::now();
  switch (running.pending.front().request.kind) {
    case RequestKind::allreduce:
      start_allreduce(running);
      break;
    case RequestKind::broadcast:
      start_broadcast(running);
      break;
    case RequestKind::allgather:
      start_allgather(running, item);
      break;
    case RequestKind::barrier:
      break;  // that it was listed means that everyone has arrived
  }
  parts_.counters->launches.add();
  running_.push_back(std::move(running));
}

bool NamedExecutor::advance() {
  bool moved = false;
  for (auto running = running_.begin(); running != running_.end();) {
    if (running->operation != nullptr && !running->operation->advance()) {
      ++running;
      continue;
    }
    complete(*running);
    running = running_.erase(running);
    moved = true;
  }
  return moved;
}

bool NamedExecutor::running(const std::string& name) const {
  return std::any_of(running_.begin(), running_.end(), [&](const auto& running) {
    return std::any_of(running.pending.begin(), running.pending.end(),
                       [&](const auto& pending) { return pending.request.name == name; });
  });
}

std::vector<Rank> NamedExecutor::waiting_for() const {
  return running_.empty() || running_.front().operation == nullptr ? std::vector<Rank>{}
                                                                   : running_.front().operation->waiting_for();
}

std::optional<std::chrono::steady_clock::time_point> NamedExecutor::oldest() const {
  if (running_.empty()) return std::nullopt;
  return running_.front().since;
}

void NamedExecutor::fail_from(std::uint64_t sequence, const std::exception_ptr& error) {
  for (auto running = running_.begin(); running != running_.end();) {
    const auto next = std::next(running);
    if (running->sequence >= sequence) {
      for (auto& pending : running->pending) {
        parts_.release(pending.request.name);
        pending.work->fail(error);
      }
      abandoned_.splice(abandoned_.end(), running_, running);
    }
    running = next;
  }
}

void NamedExecutor::finish(Pending& pending, std::span<const std::byte> result, std::shared_ptr<void> memory) {
  parts_.release(pending.request.name);
  pending.work->complete(result, std::move(memory));
}

// Hits and evictions follow from the list alone, so all ranks allocate at the same items.
std::shared_ptr<NamedExecutor::Group> NamedExecutor::group_for(const std::vector<Pending>& pending) {
  const auto key = key_of(pending);
  if (const auto found = cache_.find(key); found != cache_.end()) {
    recently_used_.remove(key);
    recently_used_.push_back(key);
    return found->second;
  }
  auto group = std::make_shared<Group>();
  for (const auto& [request, work] : pending) {
    group->offsets.push_back(group->bytes);
    group->bytes += (bytes_of(request) + kAlignment - 1) / kAlignment * kAlignment;
  }
  const std::size_t size = std::max(group->bytes, kAlignment);
  group->buffer = std::move(parts_.communicator->allocate(std::span(&size, 1), parts_.timeout).front());
  cache_[key] = group;
  recently_used_.push_back(key);
  cached_bytes_ += group->bytes;
  evict();
  return group;
}

void NamedExecutor::evict() {
  while (cached_bytes_ > parts_.cache_bytes && recently_used_.size() > 1) {
    const auto found = cache_.find(recently_used_.front());
    cached_bytes_ -= found->second->bytes;
    cache_.erase(found);
    recently_used_.pop_front();
  }
}

void NamedExecutor::start_allreduce(Running& running) {
  running.group = group_for(running.pending);
  auto memory = running.group->buffer->data();
  for (std::size_t i = 0; i < running.pending.size(); ++i) {
    const auto& request = running.pending[i].request;
    const std::size_t bytes = bytes_of(request);
    if (bytes > 0) std::memcpy(memory.data() + running.group->offsets[i], request.input, bytes);
    parts_.counters->bytes_copied.add(bytes);
    parts_.counters->copies.add();
  }
  const auto& first = running.pending.front().request;
  AllreduceOptions options;
  options.data = memory.data();
  options.count = running.group->bytes / size_of(first.dtype);
  options.dtype = first.dtype;
  options.op = first.op;
  options.prescale = first.prescale;
  options.postscale = first.postscale;
  options.registered = running.group->buffer.get();
  running.operation = parts_.communicator->start(options);
}

void NamedExecutor::start_broadcast(Running& running) {
  const auto& request = running.pending.front().request;
  const std::size_t bytes = bytes_of(request);
  running.memory = std::make_shared<std::vector<std::byte>>(bytes);  // ours: the caller's may be gone after an error
  if (parts_.communicator->rank() == request.root && bytes > 0) {
    std::memcpy(running.memory->data(), request.input, bytes);
  }
  running.operation = parts_.communicator->start(BroadcastOptions{running.memory->data(), bytes, request.root});
}

void NamedExecutor::start_allgather(Running& running, const Item& item) {
  const auto& request = running.pending.front().request;
  running.counts.assign(item.bytes.begin(), item.bytes.end());
  std::size_t total = 0;
  for (const auto count : running.counts) total += count;
  running.memory = std::make_shared<std::vector<std::byte>>(total);
  const auto* mine = static_cast<const std::byte*>(request.input);
  running.input.assign(mine, mine + bytes_of(request));
  running.operation =
      parts_.communicator->start(AllgatherOptions{running.input.data(), running.counts, running.memory->data()});
}

void NamedExecutor::complete_allreduce(Running& running) {
  const auto memory = running.group->buffer->data();
  for (std::size_t i = 0; i < running.pending.size(); ++i) {
    auto& [request, work] = running.pending[i];
    const auto result = memory.subspan(running.group->offsets[i], bytes_of(request));
    if (request.output != nullptr && !result.empty()) {
      std::memcpy(request.output, result.data(), result.size());
      parts_.counters->bytes_copied.add(result.size());
      parts_.counters->copies.add();
    }
    finish(running.pending[i], result, running.group);
  }
}

void NamedExecutor::complete(Running& running) {
  auto& pending = running.pending.front();
  switch (pending.request.kind) {
    case RequestKind::allreduce:
      complete_allreduce(running);
      break;
    case RequestKind::broadcast:
    case RequestKind::allgather:
      if (pending.request.output != nullptr && !running.memory->empty()) {
        std::memcpy(pending.request.output, running.memory->data(), running.memory->size());
      }
      finish(pending, *running.memory, running.memory);
      break;
    case RequestKind::barrier:
      finish(pending, {}, nullptr);
      break;
  }
}

}  // namespace kolo::engine
