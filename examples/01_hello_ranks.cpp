// Prints the place of each rank, one sum over all ranks, and one value from rank 0. Needs no LibTorch.
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
    const auto& place = context->placement();
    std::printf("rank %d of %d, number %d on host %s\n", place.rank, place.size, place.local_rank, place.host.c_str());

    const auto sums = sum_over_ranks(*context, {1.0, static_cast<double>(place.rank)});
    const double expected = place.size * (place.size - 1) / 2.0;
    if (place.rank == 0) {
      std::printf("%g ranks, their numbers add up to %g\n", sums[0], sums[1]);
    }
    context->shutdown();
    return sums[0] == place.size && sums[1] == expected ? 0 : 1;
  } catch (const kolo::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
