// Instead of mpi_bootstrap.cpp, mpi_exit.cpp and mpi_runtime.cpp, in a build without MPI.
#include "cluster/make.h"
#include "cluster/mpi_exit.h"
#include "kolo/error.h"

namespace kolo::cluster {

std::unique_ptr<Bootstrap> make_mpi_bootstrap(const void* /*mpi_comm*/, const StallWarning& /*stall*/) {
  throw UsageError("this kolo was built without MPI: build with KOLO_WITH_MPI=ON to run several processes");
}

void skip_mpi_finalize() noexcept {}
void limit_mpi_finalize(std::chrono::milliseconds /*limit*/) noexcept {}
void note_failed_group() noexcept {}
int note_open_group(std::function<void()> /*leave*/) { return 0; }
void note_closed_group(int /*group*/) noexcept {}
void note_failed_start(bool /*failed*/) noexcept {}
void note_orderly_end(int /*ranks*/) noexcept {}

}  // namespace kolo::cluster
