#include "engine/named_executor.h"

#include <algorithm>
#include <cstring>

#include "engine/ready_list.h"
#include "engine/signature.h"
#include "engine/unnamed_calls.h"
#include "kernels/processor.h"
#include "kernels/scale_copy.h"
#include "kolo/error.h"
#include "kolo/spi/communicator.h"

namespace kolo::engine {
namespace {

constexpr std::size_t kAlignment = 64;
// On Intel's processors and Zen 4 results of more bytes than a core keeps near itself are copied to their callers past
// its caches: the first of them would be pushed out by the last in any case, and a line that is written whole need not
// be read before. On Zen 5 one core stores faster through them.
constexpr std::size_t kCopiedThroughCaches = std::size_t{4} << 20;

std::size_t bytes_of(const Request& request) { return payload_bytes(signature_of(request)); }

std::vector<std::string> memory_names_of(std::vector<std::string> names) {
  std::ranges::transform(names, names.begin(), memory_name_of);
  return names;
}

}  // namespace

void NamedExecutor::start(const Item& item, std::vector<Pending>& pending) {
  Running running;
  running.pending = std::move(pending);
  running.sequence = item.sequence;
  running.since = std::chrono::steady_clock::now();
  try {
    start_operation(running, item);
    warm_ |= running.pending.front().request.kind != RequestKind::barrier;
  } catch (const GroupFailure&) {
    pending = std::move(running.pending);
    throw;
  } catch (...) {
    for (auto& each : running.pending) {
      parts_.release(each.request.name);
      each.work->fail(std::current_exception());
    }
    throw;
  }
  parts_.counters->launches.add();
  running_.push_back(std::move(running));
}

void NamedExecutor::start_operation(Running& running, const Item& item) {
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

std::size_t NamedExecutor::lay_out(const std::vector<const Request*>& requests, std::vector<std::size_t>& offsets) {
  std::size_t bytes = 0;
  for (const auto* request : requests) {
    offsets.push_back(bytes);
    bytes += (bytes_of(*request) + kAlignment - 1) / kAlignment * kAlignment;
  }
  return bytes;
}

bool NamedExecutor::needs_memory(const std::vector<std::string>& names,
                                 const std::vector<const Request*>& requests) const {
  if (requests.front()->kind == RequestKind::barrier) return false;
  if (requests.front()->kind != RequestKind::allreduce) return !warm_;
  std::vector<std::size_t> offsets;
  return pool_.would_allocate(memory_names_of(names), lay_out(requests, offsets));
}

void NamedExecutor::start_allreduce(Running& running) {
  std::vector<const Request*> requests;
  std::vector<std::string> names;
  for (const auto& [request, work] : running.pending) {
    requests.push_back(&request);
    names.push_back(request.name);
  }
  const std::size_t bytes = lay_out(requests, running.offsets);
  running.slab = pool_.claim(memory_names_of(names), bytes);
  auto memory = running.slab->buffer->data();
  for (std::size_t i = 0; i < running.pending.size(); ++i) {
    const auto& request = running.pending[i].request;
    const std::size_t size = bytes_of(request);
    if (size > 0) std::memcpy(memory.data() + running.offsets[i], request.input, size);
    parts_.counters->bytes_copied.add(size);
    parts_.counters->copies.add();
  }
  const auto& first = running.pending.front().request;
  AllreduceOptions options;
  options.data = memory.data();
  options.count = bytes / size_of(first.dtype);
  options.dtype = first.dtype;
  options.op = first.op;
  options.prescale = first.prescale;
  options.postscale = first.postscale;
  options.registered = running.slab->buffer.get();
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
  const auto memory = running.slab->buffer->data();
  const auto& last = running.pending.back().request;
  const bool past_caches =
      (kernels::on_intel() || kernels::on_zen4()) && running.offsets.back() + bytes_of(last) > kCopiedThroughCaches;
  for (std::size_t i = 0; i < running.pending.size(); ++i) {
    auto& [request, work] = running.pending[i];
    const auto result = memory.subspan(running.offsets[i], bytes_of(request));
    if (request.output != nullptr && !result.empty()) {
      kernels::scale_copy(result.data(), DType::u8, request.output, DType::u8, result.size(), 1.0, past_caches);
      parts_.counters->bytes_copied.add(result.size());
      parts_.counters->copies.add();
    }
    finish(running.pending[i], result, running.slab);
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
