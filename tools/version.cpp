#include "version.h"

#include "build_facts.h"

namespace kolo::tools {
namespace {

std::string standard_library() {
#ifdef _LIBCPP_VERSION
  return "libc++ " + std::to_string(_LIBCPP_VERSION);
#else
  return "libstdc++ " + std::to_string(_GLIBCXX_RELEASE) + " cxx11_abi=" + std::to_string(_GLIBCXX_USE_CXX11_ABI);
#endif
}

}  // namespace

std::string version_text() {
  return kBuildFacts + ("\nstandard_library " + standard_library()) + "\nmpi " + mpi_version();
}

}  // namespace kolo::tools
