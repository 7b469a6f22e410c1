#pragma once
// The core of kolo, without LibTorch. kolo/torch/torch.h has the API for LibTorch. Include separately, if needed:
// kolo/distributed_sampler.h, kolo/checkpoint.h, kolo/mpi.h, kolo/data/*.h (link the CMake target kolo::data), and
// kolo/spi/*.h for extensions of kolo (service provider interface).
//
//   const auto context = kolo::Context::create();
//   std::printf("rank %d of %d\n", context->rank(), context->size());
#include "kolo/config.h"
#include "kolo/context.h"
#include "kolo/error.h"
#include "kolo/types.h"
#include "kolo/work.h"
