#include "kernels/try_out.h"

#include <string>

#include "cuda/stream.h"
#include "kernels/block_shape.h"
#include "kernels/scale_arguments.h"
#include "kolo/error.h"

namespace kolo::kernels {

void try_out(const cuda::RuntimePtr& runtime, cuda::KernelImage& image, int device) {
  const cuda::OwnStream stream(runtime, device);
  try {
    image.launch({"kolo_scale", 1, kThreads}, ScaleArguments{}, stream.view());
    runtime->check(runtime->api().stream_synchronize(stream.view().handle), "cudaStreamSynchronize");
  } catch (const BackendError& error) {
    throw BackendError("kolo's kernels do not run on device " + std::to_string(device) + ": " + error.what() +
                       ". They are compiled for " KOLO_DEVICE_CODE_FOR " and newer; " + runtime->describe());
  }
}

}  // namespace kolo::kernels
