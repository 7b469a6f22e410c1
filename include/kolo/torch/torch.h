#pragma once
// All of kolo for LibTorch, except kolo/data/normalize_images.h.
//
//   kolo::broadcast_parameters(context, model);
//   kolo::DistributedOptimizer optimizer(context, sgd, model);
#include "kolo/kolo.h"
#include "kolo/torch/broadcast.h"
#include "kolo/torch/checkpointer.h"
#include "kolo/torch/cuda.h"
#include "kolo/torch/distributed_optimizer.h"
#include "kolo/torch/fused_optimizers.h"
#include "kolo/torch/grad_scaler.h"
#include "kolo/torch/ops.h"
