#include "gpu/torch_gpu.h"

#include "kolo/torch/cuda.h"

namespace kolo::test {

c10::Device training_device(Context& context) { return use_cuda(context); }

}  // namespace kolo::test
