#pragma once
// All of kolo's LibTorch binding.
#include "kolo/torch/broadcast.h"
#include "kolo/torch/cuda.h"
#include "kolo/torch/distributed_optimizer.h"
#include "kolo/torch/fused_adamw.h"
#include "kolo/torch/fused_optimizer.h"
#include "kolo/torch/fused_sgd.h"
#include "kolo/torch/grad_scaler.h"
#include "kolo/torch/images.h"
#include "kolo/torch/ops.h"
