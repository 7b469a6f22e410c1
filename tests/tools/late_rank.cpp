// late_rank KIND FIFO: rank 2 comes to a Context only when something is written to FIFO; each warning of the other
// ranks is a line of standard output. Then all ranks reduce a sum.
//   before    rank 2 has not started MPI
//   after     rank 2 has
//   second    the Context is the second one of every rank
//   over      the Context is of ranks 0 and 2 alone
#include <mpi.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>

#include "kolo/kolo.h"
#include "kolo/mpi.h"
#include "kolo/spi/communicator.h"

namespace {

kolo::Config config_of(int rank) {
  auto config = kolo::Config::from_environment();
  config.log_sink = [rank](kolo::LogLevel level, std::string_view line) {
    if (level < kolo::LogLevel::warn) return;
    std::printf("warning of %d: %.*s\n", rank, static_cast<int>(line.size()), line.data());
    std::fflush(stdout);
  };
  return config;
}

void wait_for(const char* fifo) {
  std::string text;
  std::getline(std::ifstream(fifo), text);
}

void print_sum(kolo::Context& context) {
  float value = static_cast<float>(context.rank() + 1);
  kolo::AllreduceOptions options;
  options.data = reinterpret_cast<std::byte*>(&value);
  options.count = 1;
  context.communicator().allreduce(options, context.config().timeout);
  std::printf("sum %g\n", value);
}

// Ranks 0 and 2 have a communicator of their own.
void create_over_part(int rank, const char* fifo) {
  MPI_Comm part = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &part);
  if (rank == 2) wait_for(fifo);
  if (rank != 1) print_sum(*kolo::create_context(part, config_of(rank)));
}

}  // namespace

int main(int argc, char** argv) {
  const std::string kind = argc == 3 ? argv[1] : "";
  const int rank = std::atoi(std::getenv("OMPI_COMM_WORLD_RANK"));
  const bool late = rank == 2;
  const bool own_mpi = kind == "over" || (late && kind == "after");
  int level = 0;
  if (own_mpi) MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level);
  if (kind == "over") {
    create_over_part(rank, argv[2]);
  } else {
    if (kind == "second") kolo::Context::create(config_of(rank))->shutdown();
    if (late) wait_for(argv[2]);
    print_sum(*kolo::Context::create(config_of(rank)));
  }
  if (own_mpi) MPI_Finalize();
}
