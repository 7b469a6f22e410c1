#include "kolo/torch/broadcast.h"

#include <c10/core/GradMode.h>

#include "kolo/error.h"
#include "kolo/gather_texts.h"
#include "torch/dtype.h"
#include "torch/require_equal.h"
#include "torch/require_root.h"
#include "torch/torch_device.h"

namespace kolo {

void broadcast_parameters(Context& context, const NamedTensors& tensors, Rank root) {
  require_root("broadcast_parameters", root, context.size());
  require_equal(gather_texts(context, "root " + std::to_string(root)), "broadcast_parameters");
  verify_model(context, tensors);
  // The tables are equal on all ranks from here on, so that all ranks throw here or none does.
  for (const auto& [name, tensor] : tensors) {
    require_reducible(tensor, name);
  }
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
    if (flat.is_same(tensor)) {
      tensor.unsafeGetTensorImpl()->bump_version();
    } else {
      tensor.copy_(flat);
    }
  }
  context.engine().forget_notes();
}

void broadcast_parameters(Context& context, const torch::nn::Module& module, Rank root) {
  broadcast_parameters(context, model_tensors(module), root);
}

}  // namespace kolo
