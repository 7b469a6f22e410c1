#pragma once
// LibTorch's CUDA backend for programs that link its CPU libraries only: one binary, with a GPU and without.
#include <c10/core/Device.h>

#include "kolo/context.h"
#include "kolo/export.h"

namespace KOLO_EXPORT kolo {

// This rank's GPU, which is the calling thread's current one afterwards: of those that the process sees the one with
// the number Placement::device, counted round. Loads libtorch_cuda.so from beside the libtorch_cpu.so that is in use.
// Call it before anything asks LibTorch for a device (a seed that is set, a first backward pass): LibTorch remembers
// that there was none.
//
// Collective. Throws the same UsageError on every rank, which names ranks and what is missing there: libtorch_cuda.so
// (a CPU-only build), one of the libraries that it needs, the driver, a GPU, or a GPU for each rank; several ranks on
// one are allowed by Config::shared_device (KOLO_SHARED_DEVICE=on). The program can go on on the CPU.
[[nodiscard]] c10::Device use_cuda(Context& context);

}  // namespace kolo
