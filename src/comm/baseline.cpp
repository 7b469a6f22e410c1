#include "kolo/baseline.h"

#include "comm/make.h"
#include "kernels/scale_copy.h"

namespace kolo {

std::unique_ptr<Communicator> make_mpi_baseline() { return comm::make_mpi(); }

void streaming_copy(std::byte* to, const std::byte* from, std::size_t bytes) {
  kernels::scale_copy(from, DType::u8, to, DType::u8, bytes, 1.0, true);
}

}  // namespace kolo
