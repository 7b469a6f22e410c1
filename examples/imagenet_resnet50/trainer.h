#pragma once
#include "kolo/context.h"
#include "options.h"

namespace imagenet {

// The whole run: model, data, epochs, evaluation, checkpoints, reports. Collective: the same options on all ranks.
void train(kolo::Context& context, Options options);

}  // namespace imagenet
