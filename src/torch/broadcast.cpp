#include "kolo/torch/broadcast.h"
#include "kolo/spi/communicator.h"

#include <c10/core/GradMode.h>

#include "torch/agree_on_call.h"
#include "torch/tensor_check.h"
#include "torch/torch_device.h"

namespace kolo {
namespace {

// Of the first tensor that cannot be written.
std::string first_trouble(const NamedTensors& tensors) {
  for (const auto& [name, tensor] : tensors) {
    const auto trouble = trouble_with(tensor, Access::write);
    if (!trouble.empty()) return "tensor '" + name + "' " + trouble;
  }
  return {};
}

}  // namespace

void broadcast_parameters(Context& context, const NamedTensors& tensors, Rank root) {
  auto refusal = trouble_with_root(context, root);
  if (refusal.empty()) refusal = first_trouble(tensors);
  agree_on_call(context, "broadcast_parameters", "root " + std::to_string(root), refusal);
  verify_model(context, tensors);
  const c10::NoGradGuard no_grad;
  for (const auto& [name, tensor] : tensors) {
    const at::Tensor flat = host_form(tensor);
    BroadcastOptions options;
    options.data = static_cast<std::byte*>(flat.mutable_data_ptr());
    options.bytes = flat.nbytes();
    options.root = root;
    if (options.bytes > 0) {
      context.communicator().broadcast(options, context.config().timeout);
    }
    write_back(tensor, flat);
  }
}

}  // namespace kolo
