#pragma once
#include <string>

#include <torch/optim/optimizer.h>

namespace kolo {

// What of an optimizer must be equal on all ranks, on one line: its type, and of each group the learning rate and a
// hash of all options. What a type of options does not offer (get_lr, serialize) is left out.
[[nodiscard]] std::string settings_of(const torch::optim::Optimizer& optimizer);

}  // namespace kolo
