#include "scaling_gpus.h"

#include <charconv>
#include <filesystem>
#include <map>
#include <sstream>

#include "cuda/runtime.h"
#include "kolo/error.h"
#include "scaling_programs.h"

namespace kolo::tools {

int gpus_to_use(const std::string& text) {
  int wanted = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), wanted);
  const bool number = error == std::errc() && end == text.data() + text.size() && wanted >= 1;
  if (text != "all" && !number) throw UsageError("--gpus: '" + text + "' is neither `all` nor a number of GPUs");
  const auto runtime = [] {
    try {
      return cuda::load_runtime();
    } catch (const BackendError& failure) {
      throw UsageError(std::string("--gpus: ") + failure.what());
    }
  }();
  const int there = runtime->device_count();
  if (there == 0 || wanted > there) {
    throw UsageError("--gpus " + text + ": this host has " + std::to_string(there) + " GPUs. " + runtime->describe());
  }
  return number ? wanted : there;
}

std::vector<int> doubling_counts(int most) {
  std::vector<int> counts;
  for (int count = 1; count < most; count *= 2) counts.push_back(count);
  counts.push_back(most);
  return counts;
}

std::vector<std::string> gpu_trainer() {
  const auto path = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "imagenet_resnet50";
  if (!std::filesystem::exists(path)) {
    throw UsageError("--gpus: there is no " + path.string() +
                     ". Build it with script/build, or name a program behind `--`");
  }
  return {path.string(), "--device",         "cuda",
          "--data",      "synthetic:device", "--amp",
          "bf16",        "--batch",          std::to_string(kImagesPerGpu)};
}

std::map<std::string, std::string> describe_gpus() {
  const Finished list = run_to_end({"nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"});
  if (!list.succeeded) return {};
  std::map<std::string, int> counts;
  std::map<std::string, std::string> facts;
  std::istringstream lines(list.output);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t comma = line.rfind(", ");  // "NVIDIA H200, 580.65.06"
    if (comma == std::string::npos) return {};
    ++counts[line.substr(0, comma)];
    facts["gpu_driver"] = line.substr(comma + 2);
  }
  for (const auto& [name, count] : counts) {
    std::string& gpus = facts["gpus"];
    gpus += (gpus.empty() ? "" : ", ") + std::to_string(count) + " x " + name;
  }
  if (const Finished links = run_to_end({"nvidia-smi", "topo", "-m"}); links.succeeded)
    facts["gpu_links"] = links.output;
  return facts;
}

}  // namespace kolo::tools
