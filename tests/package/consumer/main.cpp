// The smallest program that uses kolo: a world of one rank, which sums with itself.
#include <kolo/kolo.h>

#include <chrono>
#include <cstdio>

int main() {
  const auto context = kolo::Context::create();
  float values[3] = {1, 2, 3};
  kolo::AllreduceOptions options;
  options.data = reinterpret_cast<std::byte*>(values);
  options.count = 3;
  context->communicator().allreduce(options, std::chrono::seconds(10));
  std::printf("rank %d of %d: %g %g %g\n", context->rank(), context->size(), values[0], values[1], values[2]);
  const bool right = values[0] == 1 && values[1] == 2 && values[2] == 3;
  context->shutdown();
  return right ? 0 : 1;
}
