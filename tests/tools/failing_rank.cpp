// failing_rank run|outside: a job whose rank 1 throws, inside Context::run or outside it, and ends with status 3, but
// last: the others, which are told of it, end with 4 before.
#include <chrono>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <thread>

#include "kolo/kolo.h"

namespace {

void train(kolo::Context& context) {
  float loss = 1;
  kolo::Request request;
  request.name = "loss";
  request.sizes = {1};
  request.input = &loss;
  request.output = &loss;
  for (int step = 0;; ++step) {
    if (step == 10 && context.rank() == 1) throw std::runtime_error("no more data");
    context.engine().submit(request).wait();
  }
}

}  // namespace

int main(int argc, char** argv) {
  const bool inside = argc == 2 && std::string(argv[1]) == "run";
  try {
    const auto context = kolo::Context::create();
    if (inside) {
      context->run([&] { train(*context); });
    } else {
      train(*context);
    }
  } catch (const kolo::Error& error) {
    std::printf("%s\n", error.what());
    return 4;
  } catch (const std::exception& error) {
    std::printf("%s\n", error.what());
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    return 3;
  }
}
