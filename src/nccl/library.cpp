// NCCL is found at run time, so that one kolo runs with and without it. Torch's wheels bring their own, in a folder
// that the loader does not search; where torch has loaded it, that very copy is used: two copies in a process would
// each hold their own view of the devices.
#include "nccl/library.h"

#include <dlfcn.h>
#include <link.h>

#include <string>

#include "kolo/error.h"
#include "nccl/nccl_calls.h"

namespace kolo::nccl {
namespace {

constexpr const char* kName = "libnccl.so.2";

// Never unloaded: NCCL has threads of its own, which nobody can wait for (one serves each unique id).
std::shared_ptr<void> open_library(const std::string& name, bool only_loaded, std::string& trouble) {
  void* handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE | (only_loaded ? RTLD_NOLOAD : 0));
  if (handle == nullptr) {
    const char* why = dlerror();
    trouble += "\n  " + name + ": " + (only_loaded || why == nullptr ? "not loaded by this process" : why);
    return {};
  }
  return {handle, [](void* open) { dlclose(open); }};
}

std::string path_of(const void* function) {
  Dl_info info{};
  return dladdr(function, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : kName;
}

// The path of a libtorch that this process has loaded, or empty.
std::string loaded_torch() {
  for (const char* name : {"libtorch_cuda.so", "libtorch_cpu.so", "libc10.so"}) {
    void* handle = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    if (handle == nullptr) continue;
    link_map* map = nullptr;
    const bool known = dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr;
    const std::string path = known ? map->l_name : "";
    dlclose(handle);
    if (!path.empty()) return path;
  }
  return {};
}

NcclApi resolve_all(void* handle) {
  NcclApi api;
#define KOLO_RESOLVE(member, function) \
  api.member = reinterpret_cast<decltype(NcclApi::member)>(dlsym(handle, #function));
  KOLO_NCCL_CALLS(KOLO_RESOLVE)
  KOLO_NCCL_NEWER_CALLS(KOLO_RESOLVE)
#undef KOLO_RESOLVE
  return api;
}

// The name of a call that must be there and is not, or null.
const char* missing_call(const NcclApi& api) {
#define KOLO_MISSING(member, function) \
  if (api.member == nullptr) return #function;
  KOLO_NCCL_CALLS(KOLO_MISSING)
#undef KOLO_MISSING
  return nullptr;
}

}  // namespace

std::string version_text(int version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

Library::Library(const NcclApi& api, std::string path, std::shared_ptr<void> handle)
    : api_(api), path_(std::move(path)), handle_(std::move(handle)) {
  if (api_.version == nullptr) throw BackendError(path_ + " is not NCCL: ncclGetVersion is missing");
  const Result result = api_.version(&version_);
  if (result != Result::success) throw BackendError(path_ + ": ncclGetVersion failed");
  if (version_ < kOldestVersion) {
    // Versions before 2.9 were counted differently; they are too old either way.
    throw BackendError(path_ + " is NCCL " + (version_ < 10000 ? std::to_string(version_) : version_text(version_)) +
                       "; kolo needs " + version_text(kOldestVersion) + " or newer");
  }
  if (const char* missing = missing_call(api_); missing != nullptr) {
    throw BackendError(path_ + " is NCCL " + version_text(version_) + " without " + missing + "; reinstall NCCL");
  }
}

std::string Library::describe() const {
  return "NCCL " + version_text(version_) + " from " + path_ + " (kolo needs " + version_text(kOldestVersion) +
         " or newer)";
}

std::vector<std::string> library_candidates(const std::string& torch_library) {
  std::vector<std::string> candidates{kName, kName};
  const std::size_t slash = torch_library.rfind('/');
  if (slash != std::string::npos) {
    const std::string folder = torch_library.substr(0, slash);
    candidates.push_back(folder + "/" + kName);
    candidates.push_back(folder + "/../../nvidia/nccl/lib/" + kName);  // site-packages/torch/lib beside nvidia
  }
  return candidates;
}

LibraryPtr load_library() { return load_library_from(library_candidates(loaded_torch())); }

LibraryPtr load_library_from(const std::vector<std::string>& candidates) {
  std::string trouble;
  bool first = true;
  for (const std::string& candidate : candidates) {
    const auto handle = open_library(candidate, first, trouble);
    first = false;
    if (!handle) continue;
    const NcclApi api = resolve_all(handle.get());
    const std::string path = api.version != nullptr ? path_of(reinterpret_cast<const void*>(api.version)) : candidate;
    return std::make_shared<const Library>(api, path, handle);
  }
  throw BackendError(
      "cannot load NCCL; install it (pip: nvidia-nccl-cu13, or your distribution's libnccl2) or add its folder to "
      "LD_LIBRARY_PATH. Tried:" +
      trouble);
}

}  // namespace kolo::nccl
