#include "kernels/try_out.h"

#include <string>
#include <thread>

#include "base/deadline.h"
#include "cuda/stream.h"
#include "kernels/block_shape.h"
#include "kernels/scale_arguments.h"
#include "kolo/error.h"

namespace kolo::kernels {

void try_out(const cuda::RuntimePtr& runtime, cuda::KernelImage& image, int device, std::chrono::milliseconds timeout) {
  const Stream stream{nullptr, device};  // one of its own costs every later kernel of the process: decision 0009
  try {
    image.launch({"kolo_scale", 1, kThreads}, ScaleArguments{}, stream);
    cuda::Event end(runtime, device);
    end.record(stream);
    for (const base::Deadline deadline(timeout); !end.passed();) {
      if (deadline.passed()) {
        throw BackendError("a test kernel is not complete after " + std::to_string(timeout.count()) + " ms");
      }
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  } catch (const BackendError& error) {
    throw BackendError("kolo's kernels do not run on device " + std::to_string(device) + ": " + error.what() +
                       ". They are compiled for " KOLO_DEVICE_CODE_FOR " and newer; " + runtime->describe());
  }
}

}  // namespace kolo::kernels
