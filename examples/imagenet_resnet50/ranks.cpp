#include "ranks.h"

#include <algorithm>
#include <filesystem>

#include "kolo/error.h"
#include "kolo/gather_texts.h"

namespace imagenet {
namespace {

// Tells the others which call this is, with a text of this rank; returns all ranks' texts.
std::vector<std::string> told(kolo::Context& context, const std::string& call, const Where& where,
                              const std::string& text = {}) {
  const std::string purpose =
      call + " at " + std::filesystem::path(where.file_name()).filename().string() + ":" + std::to_string(where.line());
  return kolo::gather_texts(context, purpose, text);
}

}  // namespace

std::vector<std::string> gather(kolo::Context& context, const std::string& text, Where where) {
  return told(context, "gather", where, text);
}

// They are few: each rank tells its numbers with the purpose, and all add them in the same order.
void sum_over_ranks(kolo::Context& context, std::span<double> values, Where where) {
  const auto bytes = std::as_bytes(values);
  const auto texts = told(context, "sum of " + std::to_string(values.size()) + " numbers", where,
                          {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  std::ranges::fill(values, 0.0);
  std::vector<double> theirs(values.size());
  for (const std::string& text : texts) {
    text.copy(reinterpret_cast<char*>(theirs.data()), values.size_bytes());
    for (std::size_t i = 0; i < values.size(); ++i) values[i] += theirs[i];
  }
}

void average_over_ranks(kolo::Context& context, std::span<float> values, Where where) {
  told(context, "average of " + std::to_string(values.size()) + " numbers", where);
  if (context.size() == 1 || values.empty()) return;
  kolo::AllreduceOptions options;
  options.data = reinterpret_cast<std::byte*>(values.data());
  options.count = values.size();
  options.dtype = kolo::DType::f32;
  options.op = kolo::ReduceOp::average;
  context.communicator().allreduce(options, context.config().timeout);
}

// Rank 0 tells the length with the purpose: a digit, 1 if it failed, and the number of bytes that follow.
std::string from_rank_0(kolo::Context& context, const std::function<std::string()>& action, Where where) {
  std::string text, head;
  if (context.rank() == 0) {
    bool failed = false;
    try {
      text = action();
    } catch (const std::exception& error) {
      failed = true;
      text = error.what();
    }
    head = (failed ? '1' : '0') + std::to_string(text.size());
  }
  head = told(context, "text of rank 0", where, head).front();
  text.resize(std::stoull(head.substr(1)));
  if (context.size() > 1 && !text.empty()) {
    kolo::BroadcastOptions options;
    options.data = reinterpret_cast<std::byte*>(text.data());
    options.bytes = text.size();
    context.communicator().broadcast(options, context.config().timeout);
  }
  if (head.front() != '0') throw kolo::Error(text);
  return text;
}

}  // namespace imagenet
