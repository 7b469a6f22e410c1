#pragma once
// use_cuda() loads LibTorch's CUDA backend at run time, so that one binary runs with or without a GPU.
//
//   model->to(kolo::use_cuda(context));
#include <c10/core/Device.h>

#include "kolo/context.h"
#include "kolo/detail/export.h"

namespace KOLO_EXPORT kolo {

// Loads libtorch_cuda.so from the folder of the loaded libtorch_cpu.so. Makes the
// GPU with index Placement::device, modulo the number of visible GPUs, the current device of the calling thread. Call
// it before torch::manual_seed(), backward() or another query of devices, because LibTorch remembers the answer.
//
// Collective. Throws the same UsageError on every rank, which names ranks and what is missing there: libtorch_cuda.so
// (a CPU-only build), one of its libraries, the driver, a GPU, or a GPU for each rank. Config::shared_device
// (KOLO_SHARED_DEVICE=on) allows several ranks on one GPU. After the error the program can continue on the CPU.
[[nodiscard]] c10::Device use_cuda(Context& context);

}  // namespace kolo
