#pragma once
// All of kolo that needs no LibTorch. With LibTorch: kolo/torch/torch.h.
#include "kolo/communicator.h"
#include "kolo/config.h"
#include "kolo/context.h"
#include "kolo/counters.h"
#include "kolo/engine.h"
#include "kolo/error.h"
#include "kolo/gradient_reducer.h"
#include "kolo/log.h"
#include "kolo/optimizer_step.h"
#include "kolo/stream.h"
#include "kolo/types.h"
#include "kolo/work.h"
