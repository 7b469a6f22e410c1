#pragma once
// Whether all ranks train the same model. Averaged gradients keep equal weights equal; nothing makes unequal ones so,
// and nothing but worse accuracy would show it.
#include <string>

#include "kolo/engine.h"
#include "kolo/torch/distributed_optimizer.h"

namespace kolo {

// Compares what all ranks' tensors hold, by a fingerprint of each. Collective, under `name`; the lists must agree but
// for the values. Throws MismatchError on all ranks, naming the first tensor that differs and the ranks.
void require_equal_weights(Engine& engine, const std::string& name, const NamedTensors& weights);

}  // namespace kolo
