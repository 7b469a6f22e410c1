#include "ranks.h"

#include <cstdint>

#include "kolo/error.h"

namespace imagenet {
namespace {

template <class T>
void allreduce(kolo::Context& context, std::span<T> values, kolo::DType dtype, kolo::ReduceOp op) {
  if (context.size() == 1 || values.empty()) return;
  kolo::AllreduceOptions options;
  options.data = reinterpret_cast<std::byte*>(values.data());
  options.count = values.size();
  options.dtype = dtype;
  options.op = op;
  context.communicator().allreduce(options, context.config().timeout);
}

void broadcast(kolo::Context& context, void* data, std::size_t bytes) {
  if (context.size() == 1 || bytes == 0) return;
  kolo::BroadcastOptions options;
  options.data = static_cast<std::byte*>(data);
  options.bytes = bytes;
  context.communicator().broadcast(options, context.config().timeout);
}

}  // namespace

void sum_over_ranks(kolo::Context& context, std::span<double> values) {
  allreduce(context, values, kolo::DType::f64, kolo::ReduceOp::sum);
}

void average_over_ranks(kolo::Context& context, std::span<float> values) {
  allreduce(context, values, kolo::DType::f32, kolo::ReduceOp::average);
}

std::string from_rank_0(kolo::Context& context, const std::function<std::string()>& action) {
  struct {
    std::uint64_t failed = 0, size = 0;
  } head;
  std::string text;
  if (context.rank() == 0) {
    try {
      text = action();
    } catch (const std::exception& error) {
      head.failed = 1;
      text = error.what();
    }
    head.size = text.size();
  }
  broadcast(context, &head, sizeof head);
  text.resize(head.size);
  broadcast(context, text.data(), text.size());
  if (head.failed != 0) throw kolo::Error(text);
  return text;
}

}  // namespace imagenet
