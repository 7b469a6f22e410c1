#include "kernels/scale.h"

#include "kernels/floating.h"
#include "kernels/launch_shape.h"
#include "kernels/scale_arguments.h"
#include "kolo/error.h"

namespace kolo::kernels {

void scale(cuda::KernelImage& image, const ScaleRun& run, Stream stream) {
  if (!is_floating(run.dtype)) throw UsageError("scale: " + std::string(name_of(run.dtype)) + " cannot be scaled");
  const unsigned blocks = blocks_for(run.count * size_of(run.dtype), resident_blocks(image.runtime(), stream.device));
  if (blocks == 0) return;
  const ScaleArguments arguments{static_cast<std::byte*>(run.data), run.count, run.factor, run.dtype};
  image.launch({"kolo_scale", blocks, kThreads}, arguments, stream);
}

}  // namespace kolo::kernels
