// The twin of everything in this folder in builds without NCCL.
#include "kolo/error.h"
#include "kolo/spi/communicator.h"
#include "nccl/library.h"
#include "nccl/make.h"

namespace kolo::nccl {
namespace {

constexpr const char* kText = "this kolo was built without NCCL (KOLO_WITH_NCCL=OFF)";

}  // namespace

LibraryPtr load_library() { throw BackendError(kText); }

std::unique_ptr<Communicator> make_nccl(const NcclParts& /*parts*/) {
  throw UsageError(std::string(kText) + "; build it with KOLO_WITH_NCCL=AUTO, or use a communicator for CPU memory");
}

std::string describe(const Library& /*library*/, bool /*several_hosts*/) { return kText; }

}  // namespace kolo::nccl
