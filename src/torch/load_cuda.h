#pragma once
// The steps of use_cuda(), each of which can be tried without a GPU.
#include <filesystem>
#include <string>
#include <vector>

namespace kolo {

// What has to be there.
struct CudaFiles {
  std::filesystem::path folder;         // of LibTorch's libraries
  std::string driver = "libcuda.so.1";  // NVIDIA's, found where the system looks
};
[[nodiscard]] CudaFiles usual_cuda_files();  // the folder is empty where no libtorch_cpu.so is loaded

// Loads LibTorch's CUDA backend and returns where each GPU is (its PCI address). Cheap questions first: without a
// driver nothing is loaded. Throws BackendError that says what is missing.
[[nodiscard]] std::vector<std::string> load_cuda(const CudaFiles& files);

// What a rank tells the others before it uses its GPU.
struct GpuClaim {
  std::string trouble;  // why it has none
  std::string gpu;      // which one, for people; empty where it may be shared
};
// Empty when every rank has what it needs; the same text on all ranks.
[[nodiscard]] std::string trouble_of(const std::vector<GpuClaim>& claims);

}  // namespace kolo
