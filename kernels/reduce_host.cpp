#include "kernels/host_kernels.h"
#include "kernels/reduce.h"
#include "kolo/error.h"

namespace kolo::kernels {
namespace {

void check(const ReduceArguments& arguments) {
  if (arguments.inputs.empty()) throw UsageError("reduce: no inputs");
  if (arguments.divisor < 1) throw UsageError("reduce: divisor " + std::to_string(arguments.divisor) + " is below 1");
  if (arguments.op != ReduceOp::average && arguments.divisor != 1) {
    throw UsageError("reduce: only average has a divisor, not " + std::string(name_of(arguments.op)));
  }
  if (!is_floating(arguments.dtype) && (arguments.prescale != 1.0 || arguments.postscale != 1.0)) {
    throw UsageError("reduce: " + std::string(name_of(arguments.dtype)) + " cannot be scaled");
  }
}

}  // namespace

const HostKernels& host_kernels() noexcept {
  if (const HostKernels* kernels = avx512_kernels()) return *kernels;
  if (const HostKernels* kernels = avx2_kernels()) return *kernels;
  return *portable_kernels();
}

void reduce(const ReduceArguments& arguments) {
  check(arguments);
  if (arguments.count == 0 || arguments.outputs.empty()) return;
  const ReduceJob job{arguments.inputs.data(),
                      arguments.outputs.data(),
                      static_cast<int>(arguments.inputs.size()),
                      static_cast<int>(arguments.outputs.size()),
                      arguments.count,
                      arguments.dtype,
                      arguments.op,
                      arguments.divisor,
                      arguments.prescale,
                      arguments.postscale,
                      arguments.streaming,
                      arguments.near};
  host_kernels().reduce(job);
}

}  // namespace kolo::kernels
