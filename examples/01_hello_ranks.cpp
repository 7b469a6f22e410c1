// Prints the host of each rank and one sum over all ranks. Needs no LibTorch.
//
//   mpirun -np 2 01_hello_ranks
#include <cstdio>
#include <vector>

#include "kolo/kolo.h"

namespace {

std::vector<double> sum_over_ranks(kolo::Context& context, std::vector<double> values) {
  kolo::Request request;
  request.dtype = kolo::DType::f64;
  request.sizes = {static_cast<std::int64_t>(values.size())};
  request.op = kolo::ReduceOp::sum;
  request.input = values.data();
  request.output = values.data();
  context.submit(request).wait();
  return values;
}

}  // namespace

int main() {
  try {
    const auto context = kolo::Context::create();
    const int rank = context->rank();
    const int size = context->size();
    std::printf("rank %d of %d on host %s\n", rank, size, context->placement().host.c_str());

    const auto sums = sum_over_ranks(*context, {1.0, static_cast<double>(rank)});
    if (rank == 0) {
      std::printf("%g ranks, their numbers add up to %g\n", sums[0], sums[1]);
    }
    context->shutdown();
    return sums[0] == size && sums[1] == size * (size - 1) / 2.0 ? 0 : 1;
  } catch (const kolo::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
