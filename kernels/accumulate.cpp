#include "kernels/accumulate.h"

#include "kernels/accumulate_arguments.h"
#include "kernels/launch_shape.h"
#include "kolo/error.h"

namespace kolo::kernels {

void accumulate(cuda::KernelImage& image, const Accumulation& run, Stream stream) {
  if (!is_floating(run.dtype)) throw UsageError("accumulate: not of " + std::string(name_of(run.dtype)));
  const unsigned blocks = blocks_for(run.count * size_of(run.dtype), resident_blocks(image.runtime(), stream.device));
  if (blocks == 0) return;
  const AccumulateArguments arguments{static_cast<std::byte*>(run.sum), static_cast<const std::byte*>(run.addend),
                                      run.count, run.dtype};
  image.launch({"kolo_accumulate", blocks, kThreads}, arguments, stream);
}

}  // namespace kolo::kernels
