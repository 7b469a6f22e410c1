// An optimizer travels as torch saves it: no weights in it, but everything else, whatever its type.
#include <c10/util/Type.h>
#include <torch/serialize.h>

#include <sstream>

#include "kolo/context.h"
#include "kolo/error.h"
#include "kolo/spi/communicator.h"
#include "kolo/torch/broadcast.h"
#include "kolo/torch/distributed_optimizer.h"
#include "torch/agree_on_call.h"
#include "torch/failure_text.h"

namespace kolo {
namespace {

std::string saved(const torch::optim::Optimizer& optimizer) {
  torch::serialize::OutputArchive archive;
  optimizer.save(archive);
  std::ostringstream bytes;
  archive.save_to(bytes);
  return bytes.str();
}

// Where a rank wants its state, wherever the root had it.
std::optional<c10::Device> home_of(const torch::optim::Optimizer& optimizer) {
  std::optional<c10::Device> home;
  for (const auto& group : optimizer.param_groups()) {
    for (const auto& parameter : group.params()) {
      if (home.has_value() && parameter.device() != *home) {
        throw UsageError("the optimizer's parameters are on " + home->str() + " and on " + parameter.device().str() +
                         "; optimizer state can be broadcast to one device only");
      }
      home = parameter.device();
    }
  }
  return home;
}

// What load() changes, to be put back.
class Kept {
 public:
  explicit Kept(torch::optim::Optimizer& optimizer) : optimizer_(optimizer) {
    for (const auto& group : optimizer.param_groups()) {
      options_.push_back(group.has_options() ? group.options().clone() : nullptr);
    }
    state_.swap(optimizer.state());
  }
  void put_back() {
    optimizer_.state().swap(state_);
    auto options = options_.begin();
    for (auto& group : optimizer_.param_groups()) {
      if (*options != nullptr) group.set_options(std::move(*options));
      ++options;
    }
  }

 private:
  torch::optim::Optimizer& optimizer_;
  std::decay_t<decltype(optimizer_.state())> state_;
  std::vector<std::unique_ptr<torch::optim::OptimizerOptions>> options_;
};

// REQUIRES: an optimizer without state, which would stay where the root has none.
void load(torch::optim::Optimizer& optimizer, const std::string& bytes) {
  std::istringstream stream(bytes);
  torch::serialize::InputArchive archive;
  archive.load_from(stream, home_of(optimizer));
  optimizer.load(archive);
}

// "3 groups of 2, 5, 1": what has to fit before a state can be loaded.
std::string shape_of(const torch::optim::Optimizer& optimizer) {
  std::string text = std::to_string(optimizer.param_groups().size()) + " parameter groups of";
  for (const auto& group : optimizer.param_groups()) {
    text += " " + std::to_string(group.params().size());
  }
  return text + " parameters, " + c10::demangle(typeid(optimizer).name());
}

// What fails on one rank is thrown on all of them.
template <class Act>
void share_failures(Context& context, const std::string& what, Act act) {
  const auto failures = gather_texts(context, "broadcast_optimizer_state: " + what, failure_of(act));
  for (std::size_t rank = 0; rank < failures.size(); ++rank) {
    if (!failures[rank].empty()) {
      throw MismatchError("broadcast_optimizer_state: rank " + std::to_string(rank) + " could not " + what + ": " +
                          failures[rank]);
    }
  }
}

void broadcast_bytes(Context& context, void* data, std::size_t bytes, Rank root) {
  BroadcastOptions options;
  options.data = static_cast<std::byte*>(data);
  options.bytes = bytes;
  options.root = root;
  context.communicator().broadcast(options, context.config().timeout);
}

}  // namespace

void broadcast_optimizer_state(Context& context, torch::optim::Optimizer& optimizer, Rank root) {
  if (auto* const distributed = dynamic_cast<DistributedOptimizer*>(&optimizer); distributed != nullptr) {
    broadcast_optimizer_state(context, distributed->optimizer(), root);
    static_cast<void>(distributed->param_groups());  // the new options, before a scheduler reads them there
    return;
  }
  agree_on_call(context, "broadcast_optimizer_state", shape_of(optimizer) + ", root " + std::to_string(root),
                trouble_with_root(context, root));
  std::string bytes;
  share_failures(context, "save its optimizer state", [&] {
    if (context.rank() == root) bytes = saved(optimizer);
  });
  std::uint64_t size = bytes.size();
  broadcast_bytes(context, &size, sizeof size, root);
  bytes.resize(size);
  broadcast_bytes(context, bytes.data(), bytes.size(), root);
  std::optional<Kept> before;
  try {
    share_failures(context, "load the optimizer state of rank " + std::to_string(root), [&] {
      if (context.rank() == root) return;
      before.emplace(optimizer);
      load(optimizer, bytes);
    });
  } catch (...) {
    if (before.has_value()) before->put_back();
    throw;
  }
}

}  // namespace kolo
