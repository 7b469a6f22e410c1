// The smallest program that uses kolo: a world of one rank, which sums with itself.
#include <kolo/kolo.h>
#include <kolo/spi/communicator.h>

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
  bool right = values[0] == 1 && values[1] == 2 && values[2] == 3;
  context->shutdown();
  try {
    context->communicator().allreduce(options, std::chrono::seconds(10));
    right = false;
  } catch (const kolo::UsageError& error) {  // of a context that is shut down
    std::printf("%s\n", error.what());
  }
  return right ? 0 : 1;
}
