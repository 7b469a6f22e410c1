// failing_rank run|outside|absent: a job whose rank 1 throws, inside Context::run or outside it, or does not come
// to an operation in time, and ends with status 3, but last: the others, which are told of it or wait in vain, end with
// 4 before.
#include <chrono>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <thread>

#include "kolo/kolo.h"
#include "kolo/spi/engine.h"

namespace {

void train(kolo::Context& context, const std::string& how) {
  float loss = 1;
  kolo::Request request;
  request.name = "loss";
  request.sizes = {1};
  request.input = &loss;
  request.output = &loss;
  for (int step = 0;; ++step) {
    if (step == 10 && context.rank() == 1) {
      if (how == "absent") std::this_thread::sleep_for(2 * context.config().timeout);
      throw std::runtime_error("no more data");
    }
    context.engine().submit(request).wait();
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string how = argc == 2 ? argv[1] : "";
  try {
    const auto context = kolo::Context::create();
    if (how == "run") {
      context->run([&] { train(*context, how); });
    } else {
      train(*context, how);
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
