#pragma once
// Defaults of `kolo scaling --gpus`: the numbers of ranks, the program, and a description of the GPUs, which nvidia-smi
// lists.
#include <map>
#include <string>
#include <vector>

namespace kolo::tools {

// "all", or a number of GPUs. Throws UsageError if this host has fewer.
[[nodiscard]] int gpus_to_use(const std::string& text);
// 1, 2, 4, ... and `most`.
[[nodiscard]] std::vector<int> doubling_counts(int most);

inline constexpr int kImagesPerGpu = 64;
// The reference trainer beside this program: ResNet-50 in bf16, kImagesPerGpu ready images of 224 pixels for each GPU.
// Throws UsageError if it is not there.
[[nodiscard]] std::vector<std::string> gpu_trainer();

// "gpus", "gpu_driver" and "gpu_links" (a table of several lines); without GPUs empty.
[[nodiscard]] std::map<std::string, std::string> describe_gpus();

}  // namespace kolo::tools
