#pragma once
// Whether all ranks train the same model. Averaged gradients keep equal weights equal; nothing makes unequal ones so,
// and nothing but worse accuracy would show it.
#include <string>
#include <vector>

#include "kolo/spi/engine.h"
#include "kolo/torch/distributed_optimizer.h"

namespace kolo {

// A parameter, and what is to be the same beside its weight.
struct Compared {
  std::string name;
  std::vector<at::Tensor> tensors;
  std::int64_t steps = 0;  // that an optimizer has counted for it
};

// When weights are compared; the error lists the causes that are likely then.
//   beginning    after the first round of an optimizer
//   later        weights were equal before
//   failed_step  a step has failed that may have updated other weights on each rank
enum class Occasion { beginning, later, failed_step };

// Compares what all ranks' tensors hold, by a fingerprint for each parameter. Collective, under `name`; the lists must
// agree but for the tensors. Throws MismatchError on all ranks, naming the first parameter that differs and the ranks.
void require_equal_weights(Engine& engine, const std::string& name, const std::vector<Compared>& parameters,
                           Occasion occasion);

}  // namespace kolo
