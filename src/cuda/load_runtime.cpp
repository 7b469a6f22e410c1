#include "cuda/load_runtime.h"

#include <dlfcn.h>
#include <link.h>

#include <cstring>

#include "cuda/runtime_calls.h"
#include "kolo/error.h"

namespace kolo::cuda {
namespace {

constexpr int kOldest = 12080;  // 12.8: the first with cudaLibraryLoadData

using Library = std::shared_ptr<void>;

// Never unloaded again (RTLD_NODELETE): the runtime has threads, and work to do when the process ends.
Library open(const std::string& file, int more_flags) {
  void* const handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE | more_flags);
  return handle == nullptr ? Library() : Library(handle, [](void* each) { dlclose(each); });
}

std::string path_of(const Library& library) {
  const link_map* map = nullptr;
  return dlinfo(library.get(), RTLD_DI_LINKMAP, &map) == 0 ? map->l_name : "?";
}

template <class Function>
void find(const Library& library, const char* name, Function& function) {
  void* const symbol = dlsym(library.get(), name);
  std::memcpy(&function, &symbol, sizeof function);
}

// The version first: an older library is told by its number, not by what it lacks.
RuntimePtr make_runtime(const Library& library) {
  const std::string path = path_of(library);
  RuntimeApi api;
  find(library, "cudaRuntimeGetVersion", api.runtime_version);
  int version = 0;
  if (api.runtime_version == nullptr || api.runtime_version(&version) != kSuccess) {
    throw BackendError("cannot read the version of the CUDA runtime " + path);
  }
  if (version < kOldest) {
    throw BackendError(path + " is CUDA runtime " + version_text(version) + "; kolo needs " + version_text(kOldest) +
                       " or newer");
  }
  for_each_call(api, [&](const char* name, auto& function) { find(library, name, function); });
  if (const Library driver = open("libcuda.so.1", 0)) find(driver, "cuDevicePrimaryCtxGetState", api.context_state);
  try {
    return std::make_shared<const Runtime>(api, library);
  } catch (const BackendError& error) {
    throw BackendError(path + ": " + error.what());
  }
}

// The folders of LibTorch's libraries, as far as they are loaded.
std::vector<std::filesystem::path> folders_of_torch() {
  std::vector<std::filesystem::path> found;
  const auto note = [](dl_phdr_info* info, std::size_t, void* into) {
    const std::filesystem::path path(info->dlpi_name);
    const std::string name = path.filename();
    if (name == "libtorch_cpu.so" || name == "libc10.so") {
      static_cast<std::vector<std::filesystem::path>*>(into)->push_back(path.parent_path());
    }
    return 0;
  };
  dl_iterate_phdr(note, &found);
  return found;
}

}  // namespace

RuntimeSearch usual_search() {
  RuntimeSearch search{{"libcudart.so.13", "libcudart.so.12"}, {}};
  for (const auto& folder : folders_of_torch()) {
    search.folders.push_back(folder);
    // Python wheels keep it in packages beside torch: site-packages/torch/lib, site-packages/nvidia/...
    const auto packages = folder.parent_path().parent_path() / "nvidia";
    search.folders.push_back(packages / "cu13" / "lib");
    search.folders.push_back(packages / "cuda_runtime" / "lib");
  }
  return search;
}

RuntimePtr load_runtime(const RuntimeSearch& search) {
  std::string tried;
  for (const auto& name : search.names) {
    if (const Library loaded = open(name, RTLD_NOLOAD)) return make_runtime(loaded);
    tried += (tried.empty() ? "" : ", ") + name;
  }
  std::string refused;
  const auto try_file = [&](const std::string& file) -> RuntimePtr {
    const Library library = open(file, 0);
    if (library == nullptr) return nullptr;
    try {
      return make_runtime(library);
    } catch (const BackendError& error) {
      refused += std::string("; ") + error.what();
      return nullptr;
    }
  };
  std::string places;
  for (const auto& folder : search.folders) {
    places += ", in " + folder.string();
    for (const auto& name : search.names) {
      if (auto runtime = try_file(folder / name)) return runtime;
    }
  }
  for (const auto& name : search.names) {
    if (auto runtime = try_file(name)) return runtime;
  }
  throw BackendError("cannot load the CUDA runtime; tried " + tried + " among loaded libraries" + places +
                     ", and in the system's library path" + refused +
                     ". Set LD_LIBRARY_PATH or install nvidia-cuda-runtime");
}

RuntimePtr load_runtime() { return load_runtime(usual_search()); }

}  // namespace kolo::cuda
