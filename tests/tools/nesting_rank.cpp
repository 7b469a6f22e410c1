// nesting_rank WHAT [COMMAND]: a rank with a live Context that starts other programs, or itself, and then goes on with
// its peers.
//   system    rank 0 runs COMMAND in a shell and prints "status N"
//   fork      rank 0 creates a Context in a forked child, which prints the error
//   contexts  every rank has several Contexts, one after the other and at once
//   again     every rank has started MPI itself before
//   exec      every rank replaces itself by `nesting_rank system true` before it creates a Context
#include <mpi.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "kolo/kolo.h"
#include "kolo/spi/communicator.h"

namespace {

float sum_of_ranks(kolo::Context& context) {
  float value = static_cast<float>(context.rank() + 1);
  kolo::AllreduceOptions options;
  options.data = reinterpret_cast<std::byte*>(&value);
  options.count = 1;
  context.communicator().allreduce(options, std::chrono::seconds(60));
  return value;
}

void fork_and_create() {
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    try {
      const auto context = kolo::Context::create();
    } catch (const kolo::UsageError& error) {
      std::printf("child: %s\n", error.what());
    }
    std::fflush(nullptr);
    _exit(0);
  }
  waitpid(child, nullptr, 0);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "exec") execl(argv[0], argv[0], "system", "true", nullptr);
  if (what == "again") {
    int level = 0;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level);
  }
  try {
    auto context = kolo::Context::create();
    if (what == "contexts") {
      context.reset();
      context = kolo::Context::create();
      const auto beside = kolo::Context::create();
      static_cast<void>(sum_of_ranks(*beside));
    }
    if (context->rank() == 0 && what == "fork") fork_and_create();
    if (context->rank() == 0 && what == "system" && argc > 2) {
      const int status = std::system(argv[2]);
      std::printf("status %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
    }
    std::printf("rank %d: sum %g\n", context->rank(), sum_of_ranks(*context));
  } catch (const kolo::Error& error) {
    std::printf("error: %s\n", error.what());
    return 1;
  }
  if (what == "again") MPI_Finalize();
}
