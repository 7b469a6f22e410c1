#include "scaling_gpus.h"

#include <charconv>
#include <regex>
#include <sstream>

#include "base/environment.h"
#include "kolo/error.h"
#include "run_line.h"
#include "scaling_peers.h"
#include "scaling_programs.h"
#include "scaling_text.h"

namespace kolo::tools {
namespace {

struct Gpus {
  std::vector<std::string> lines;  // "NVIDIA H200, 580.65.06": name and driver of each
  std::string trouble;             // why there are none
};

// CUDA_VISIBLE_DEVICES hides GPUs from programs, but not from nvidia-smi.
Gpus list_gpus() {
  const auto visible = base::get_environment("CUDA_VISIBLE_DEVICES");
  if (visible && visible->empty()) return {{}, "CUDA_VISIBLE_DEVICES is empty"};
  std::vector<std::string> words{"nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"};
  if (visible) words.push_back("--id=" + *visible);
  const Finished list = run_to_end(words);
  if (!list.succeeded) return {{}, shell_words(words) + ": " + first_line(list.output)};
  Gpus gpus;
  std::istringstream lines(list.output);
  for (std::string line; std::getline(lines, line);) {
    if (line.find(", ") != std::string::npos) gpus.lines.push_back(line);
  }
  if (gpus.lines.empty()) gpus.trouble = shell_words(words) + " lists none";
  return gpus;
}

// Of this process: nvidia-smi can take seconds.
const Gpus& gpus_of_host() {
  static const Gpus gpus = list_gpus();
  return gpus;
}

}  // namespace

int gpus_to_use(const std::string& text) {
  int wanted = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), wanted);
  const bool is_number = error == std::errc() && end == text.data() + text.size() && wanted >= 1;
  if (text != "all" && !is_number) throw UsageError("--gpus: '" + text + "' is neither `all` nor a number of GPUs");
  const Gpus& gpus = gpus_of_host();
  const auto there = static_cast<int>(gpus.lines.size());
  if (there == 0) throw UsageError("--gpus: no GPU is visible (" + gpus.trouble + "). Use --ranks for CPUs");
  if (wanted > there)
    throw UsageError("--gpus " + text + ": visible GPUs: " + std::to_string(there) + ". Use --gpus all");
  return is_number ? wanted : there;
}

std::vector<int> doubling_counts(int most) {
  std::vector<int> counts;
  for (int count = 1; count < most; count *= 2) counts.push_back(count);
  counts.push_back(most);
  return counts;
}

std::vector<std::string> gpu_trainer() {
  const std::string trainer = find_beside_program({kPeerProgram});
  if (trainer.empty()) {
    throw UsageError(
        "--gpus: imagenet_resnet50 is not beside kolo. Build it with script/build, or name a program after `--`");
  }
  return {trainer,  "--device",         "cuda",
          "--data", "synthetic:device", "--amp",
          "bf16",   "--batch",          std::to_string(kImagesPerGpu)};
}

std::map<std::string, std::string> describe_gpus() {
  const Gpus& gpus = gpus_of_host();
  if (gpus.lines.empty()) return {};
  std::map<std::string, int> counts;
  std::map<std::string, std::string> facts;
  for (const std::string& line : gpus.lines) {
    const std::size_t comma = line.rfind(", ");
    ++counts[line.substr(0, comma)];
    facts["gpu_driver"] = line.substr(comma + 2);
  }
  for (const auto& [name, count] : counts) {
    std::string& all = facts["gpus"];
    all += (all.empty() ? "" : ", ") + std::to_string(count) + " x " + name;
  }
  if (const Finished links = run_to_end({"nvidia-smi", "topo", "-m"}); links.succeeded) {
    // Without the escape sequences that underline its head.
    facts["gpu_links"] = std::regex_replace(links.output, std::regex("\x1b\\[[0-9;]*m"), "");
  }
  return facts;
}

}  // namespace kolo::tools
