#pragma once
// Contexts, collectives and the engine. Beside it, where they are needed: kolo/distributed_sampler.h,
// kolo/checkpoint.h, kolo/data/*.h, kolo/mpi.h, kolo/baseline.h (what MPI does by itself, to measure against). With
// LibTorch: kolo/torch/torch.h.
#include "kolo/communicator.h"
#include "kolo/config.h"
#include "kolo/context.h"
#include "kolo/counters.h"
#include "kolo/engine.h"
#include "kolo/error.h"
#include "kolo/gather_texts.h"
#include "kolo/gradient_reducer.h"
#include "kolo/images.h"
#include "kolo/log.h"
#include "kolo/optimizer_step.h"
#include "kolo/stream.h"
#include "kolo/strides.h"
#include "kolo/types.h"
#include "kolo/work.h"
