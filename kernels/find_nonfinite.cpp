#include "kernels/find_nonfinite.h"

#include "kernels/find_nonfinite_arguments.h"
#include "kernels/floating.h"
#include "kernels/launch_shape.h"
#include "kolo/error.h"

namespace kolo::kernels {

void find_nonfinite(cuda::KernelImage& image, const FloatRun& run, std::uint32_t* flag, Stream stream) {
  if (!is_floating(run.dtype)) {
    throw UsageError("find_nonfinite: " + std::string(name_of(run.dtype)) + " has no values that are not finite");
  }
  const unsigned blocks = blocks_for(run.count * size_of(run.dtype), resident_blocks(image.runtime(), stream.device));
  if (blocks == 0) return;
  const FindNonfiniteArguments arguments{static_cast<const std::byte*>(run.data), run.count, flag, run.dtype};
  image.launch({"kolo_find_nonfinite", blocks, kThreads}, arguments, stream);
}

}  // namespace kolo::kernels
