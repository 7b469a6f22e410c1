#include "torch/execution_environment.h"

#include <ATen/Parallel.h>
#include <ATen/Version.h>

#include <memory>
#include <sstream>
#include <string_view>

#include "kolo/spi/engine.h"
#include "torch/ranks_text.h"

namespace kolo {
namespace {

// Of the LibTorch that runs, which need not be the one that kolo was compiled with.
std::string libtorch_version() {
  constexpr std::string_view kKey = "TORCH_VERSION=";
  const std::string build = at::show_config();
  const std::size_t found = build.find(kKey);
  if (found == std::string::npos) return "unknown";
  const std::size_t begin = found + kKey.size();
  return build.substr(begin, build.find(',', begin) - begin);
}

// One line for each setting, and an empty line at the end.
std::string text_of(const ExecutionEnvironment& environment) {
  std::string text;
  for (const auto& [key, value] : environment) text += key + '=' + value + '\n';
  return text + '\n';
}

std::vector<ExecutionEnvironment> parse(const std::string& texts) {
  std::vector<ExecutionEnvironment> by_rank(1);
  std::istringstream lines(texts);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty()) {
      by_rank.emplace_back();
      continue;
    }
    const std::size_t equals = line.find('=');
    by_rank.back().emplace_back(line.substr(0, equals), line.substr(equals + 1));
  }
  by_rank.pop_back();
  return by_rank;
}

}  // namespace

ExecutionEnvironment execution_environment() {
  return {{"threads", std::to_string(at::get_num_threads())},
          {"cpu_capability", at::get_cpu_capability()},
          {"libtorch", libtorch_version()},
          {"kolo", KOLO_VERSION},
          {"mkl", at::get_mkl_version()},
          {"onednn", at::get_mkldnn_version()}};
}

std::string differences_of(const std::vector<ExecutionEnvironment>& by_rank) {
  std::string text;
  for (std::size_t setting = 0; setting < by_rank.front().size(); ++setting) {
    std::vector<std::pair<std::string, std::vector<std::size_t>>> values;  // in the order of their first ranks
    for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
      if (setting >= by_rank[rank].size()) continue;  // another version of kolo
      const auto& [key, value] = by_rank[rank].at(setting);
      const std::string pair = key + '=' + value;
      auto same = values.begin();
      while (same != values.end() && same->first != pair) ++same;
      if (same == values.end()) same = values.insert(same, {pair, {}});
      same->second.push_back(rank);
    }
    if (values.size() == 1) continue;
    for (const auto& [pair, ranks] : values) {
      text += (text.empty() ? "" : ", ") + pair + " on " + ranks_text(ranks);
    }
  }
  return text;
}

void warn_of_different_environments(Context& context, const std::string& name) {
  if (context.size() == 1) return;
  const auto mine = std::make_shared<std::string>(text_of(execution_environment()));
  Request request;
  request.name = "kolo/execution environment of " + name;
  request.kind = RequestKind::allgather;
  request.dtype = DType::u8;
  request.sizes = {static_cast<std::int64_t>(mine->size())};
  request.input = mine->data();
  request.keep = mine;
  Work work = context.engine().submit_internal(std::move(request));
  work.wait();
  if (context.rank() != 0) return;
  const auto bytes = work.result();
  const std::string differences =
      differences_of(parse(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size())));
  if (differences.empty()) return;
  context.log(
      LogLevel::warn,
      name + ": ranks have different execution environments: " + differences +
          ". Results of LibTorch operations may differ in the last bits, and weights that LibTorch's optimizers "
          "update may drift apart. Set the same OMP_NUM_THREADS and ATEN_CPU_CAPABILITY and run the same build on "
          "all ranks");
}

}  // namespace kolo
