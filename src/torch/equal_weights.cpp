#include "torch/equal_weights.h"

#include <cstring>
#include <memory>
#include <vector>

#include "kolo/error.h"
#include "kolo/spi/engine.h"
#include "torch/fingerprint.h"
#include "torch/ranks_text.h"

namespace kolo {
namespace {

using Values = std::vector<std::int64_t>;

Work submit(Engine& engine, const std::string& name, RequestKind kind, const std::shared_ptr<Values>& values) {
  Request request;
  request.name = "kolo/" + name;
  request.kind = kind;
  request.dtype = DType::i64;
  request.sizes = {static_cast<std::int64_t>(values->size())};
  request.op = ReduceOp::max;
  request.input = values->data();
  if (kind == RequestKind::allreduce) request.output = values->data();
  request.keep = values;
  return engine.submit_internal(std::move(request));
}

// Of all that belongs to one parameter, and of how much that is.
std::uint64_t fingerprint_of(const Compared& parameter) {
  std::vector<std::uint64_t> each;
  for (const at::Tensor& tensor : parameter.tensors) each.push_back(fingerprint(tensor));
  if (parameter.steps != 0) each.push_back(static_cast<std::uint64_t>(parameter.steps));
  if (each.size() == 1) return each.front();
  return fingerprint(std::string_view(reinterpret_cast<const char*>(each.data()), each.size() * sizeof each.front()));
}

// Likely causes, and what the user can do.
const char* advice(Occasion occasion) {
  switch (occasion) {
    case Occasion::failed_step:
      return "A failed step has updated weights on some ranks: call broadcast_parameters() and "
             "broadcast_optimizer_state(), or load a checkpoint on all ranks";
    case Occasion::beginning:
      return "Call broadcast_parameters() before the first step, and broadcast_optimizer_state() if an optimizer has "
             "been loaded. If they were called, check modules whose forward() changes weights in place, such as "
             "Embedding or EmbeddingBag with max_norm: each rank then changes the weights that its own batch uses. If "
             "ranks need different weights, set DistributedOptions::compare_weights to false";
    case Occasion::later:
      return "Likely causes: a step() that only some ranks take; a parameter that has a gradient on some ranks only; a "
             "module whose forward() changes weights in place, such as Embedding or EmbeddingBag with max_norm; "
             "weights that the program changes, or parameters that the program adds, on one rank only; a LibTorch "
             "optimizer on ranks that differ in thread count, CPU capability or library versions (a warning at the "
             "start names them); a hardware fault. Remove the cause, then call broadcast_parameters() and "
             "broadcast_optimizer_state(), or load a checkpoint on all ranks";
  }
  return "";
}

// Of each parameter the fingerprint without its sign bit, then all of them negated: their maxima over the ranks are the
// largest fingerprint and minus the smallest.
Values both_ways(const std::vector<Compared>& parameters) {
  Values values;
  values.reserve(2 * parameters.size());
  for (const auto& each : parameters) values.push_back(static_cast<std::int64_t>(fingerprint_of(each) >> 1));
  for (std::size_t i = 0; i < parameters.size(); ++i) values.push_back(-values[i]);
  return values;
}

// Those whose value is not that of rank 0.
std::string ranks_apart(std::span<const std::byte> gathered) {
  Values values(gathered.size() / sizeof(std::int64_t));
  std::memcpy(values.data(), gathered.data(), gathered.size());
  std::vector<std::size_t> ranks;
  for (std::size_t rank = 1; rank < values.size(); ++rank) {
    if (values[rank] != values[0]) ranks.push_back(rank);
  }
  return ranks_text(ranks);
}

}  // namespace

void require_equal_weights(Engine& engine, const std::string& name, const std::vector<Compared>& parameters,
                           Occasion occasion) {
  if (parameters.empty() || engine.size() == 1) return;
  const Values mine = both_ways(parameters);
  const auto largest = std::make_shared<Values>(mine);
  submit(engine, name, RequestKind::allreduce, largest).wait();
  const auto differs = [&](std::size_t i) { return (*largest)[i] != -(*largest)[parameters.size() + i]; };
  std::size_t count = 0;
  std::size_t first = 0;
  for (std::size_t i = parameters.size(); i-- > 0;) {
    if (differs(i)) {
      ++count;
      first = i;
    }
  }
  if (count == 0) return;
  Work work = submit(engine, name, RequestKind::allgather, std::make_shared<Values>(1, mine[first]));
  work.wait();
  throw MismatchError("ranks have different weights or optimizer state: parameter '" + parameters[first].name +
                      "' of " + ranks_apart(work.result()) + " is not that of rank 0 (" + std::to_string(count) +
                      " of " + std::to_string(parameters.size()) +
                      " parameters differ). No weight was updated in this step. " + advice(occasion));
}

}  // namespace kolo
