#include "kernels/begin_update.h"

namespace kolo::kernels {

void begin_update(cuda::KernelImage& image, const BeginUpdate& begin, Stream stream) {
  image.launch({"kolo_begin_update", 1, 1}, begin, stream);
}

}  // namespace kolo::kernels
