#include "torch/load_cuda.h"

#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <dlfcn.h>
#include <link.h>

#include <array>
#include <map>

#include "kolo/error.h"

namespace kolo {
namespace {

constexpr const char* kBackend = "libtorch_cuda.so";

// Never unloaded again: the backend has registered itself with LibTorch. Null: dlerror() says why.
void* open(const std::string& file) { return dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE); }

// The CUDA runtime that the backend was linked with is asked by itself: LibTorch's own count says 0 for any reason.
template <class Function>
Function* runtime_call(void* backend, const char* name) {
  void* const symbol = dlsym(backend, name);
  if (symbol == nullptr) {
    throw BackendError(std::string(kBackend) + " has no CUDA runtime: " + name + " is missing; reinstall LibTorch");
  }
  return reinterpret_cast<Function*>(symbol);
}

int count_gpus(void* backend) {
  int count = 0;
  const int status = runtime_call<int(int*)>(backend, "cudaGetDeviceCount")(&count);
  if (status == 0 && count > 0) return count;
  std::string text = "the driver shows no GPU to this process";
  if (status != 0) {
    text += std::string(": ") + runtime_call<const char*(int)>(backend, "cudaGetErrorString")(status) + " (" +
            std::to_string(status) + ")";
  }
  throw BackendError(text + "; check nvidia-smi and CUDA_VISIBLE_DEVICES");
}

std::vector<std::string> gpu_addresses(void* backend) {
  const int count = count_gpus(backend);
  auto* const address = runtime_call<int(char*, int, int)>(backend, "cudaDeviceGetPCIBusId");
  std::vector<std::string> addresses;
  for (int device = 0; device < count; ++device) {
    std::array<char, 32> text{};
    const int status = address(text.data(), static_cast<int>(text.size()) - 1, device);
    if (status != 0) {
      throw BackendError("cannot read the PCI address of GPU " + std::to_string(device) + ": CUDA error " +
                         std::to_string(status));
    }
    addresses.emplace_back(text.data());
  }
  return addresses;
}

std::string list_of(const std::vector<std::size_t>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size(); ++i) text += (i > 0 ? ", " : "") + std::to_string(ranks[i]);
  return text;
}

}  // namespace

CudaFiles usual_cuda_files() {
  CudaFiles files;
  const auto note = [](dl_phdr_info* info, std::size_t, void* into) {
    const std::filesystem::path path(info->dlpi_name);
    if (path.filename() != "libtorch_cpu.so") return 0;
    static_cast<CudaFiles*>(into)->folder = path.parent_path();
    return 1;  // enough seen
  };
  dl_iterate_phdr(note, &files);
  return files;
}

std::vector<std::string> load_cuda(const CudaFiles& files) {
  const auto file = files.folder / kBackend;
  if (!std::filesystem::exists(file)) {
    throw BackendError("this LibTorch is a CPU-only build: " + file.string() + " does not exist");
  }
  if (open(files.driver) == nullptr) {
    const char* const why = dlerror();
    throw BackendError(std::string("cannot load the NVIDIA driver: ") + (why != nullptr ? why : files.driver.c_str()));
  }
  void* const backend = open(file);
  if (backend == nullptr) {
    const char* const why = dlerror();
    throw BackendError("cannot load " + file.string() + ": " + (why != nullptr ? why : "no reason given") +
                       ". Are all NVIDIA libraries of this LibTorch installed?");
  }
  auto addresses = gpu_addresses(backend);
  if (!c10::impl::hasDeviceGuardImpl(c10::DeviceType::CUDA)) {
    throw BackendError(
        file.string() +
        " belongs to another LibTorch than the one in use, which has no CUDA device type after loading it");
  }
  if (!at::detail::getCUDAHooks().hasCUDART()) {
    throw BackendError(
        "LibTorch was asked for a device before its CUDA backend was loaded, and remembers that it found none. Call "
        "kolo::use_cuda() before other functions of LibTorch");
  }
  return addresses;
}

std::string trouble_of(const std::vector<GpuClaim>& claims) {
  std::map<std::string, std::vector<std::size_t>> troubles, users;
  for (std::size_t rank = 0; rank < claims.size(); ++rank) {
    if (!claims[rank].trouble.empty()) {
      troubles[claims[rank].trouble].push_back(rank);
    } else if (!claims[rank].gpu.empty()) {
      users[claims[rank].gpu].push_back(rank);
    }
  }
  std::string text;
  const auto add = [&](const std::string& line) { text += (text.empty() ? "" : "\n") + line; };
  for (const auto& [trouble, ranks] : troubles) add(list_of(ranks) + ": " + trouble);
  for (const auto& [gpu, ranks] : users) {
    if (ranks.size() == 1) continue;
    add(list_of(ranks) + " use the same GPU, " + gpu +
        "; start one rank for each GPU, or set KOLO_SHARED_DEVICE=on for tests");
  }
  return text;
}

}  // namespace kolo
