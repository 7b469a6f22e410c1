#include "torch/rank_objects.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>

#include "kolo/error.h"
#include "torch/checkpoint_items.h"

namespace kolo {
namespace {

constexpr const char* kCpuGenerator = "cpu_generator";
constexpr const char* kGpuGenerator = "cuda_generator";

void restore(at::Generator generator, torch::serialize::InputArchive& archive, const char* name) {
  at::Tensor state;
  if (archive.try_read(name, state, /*is_buffer=*/true)) generator.set_state(state);
}

}  // namespace

void RankObjects::add(std::string name, Save save, Load load) {
  for (const Object& each : objects_) {
    if (each.name == name) throw UsageError("Checkpointer::add: the name '" + name + "' is taken");
  }
  objects_.push_back({std::move(name), std::move(save), std::move(load)});
}

std::string RankObjects::names() const {
  std::string names;
  for (const Object& each : objects_) names += each.name + " ";
  return names;
}

std::string RankObjects::save() const {
  return archive_bytes([this](torch::serialize::OutputArchive& archive) {
    archive.write(kCpuGenerator, at::detail::getDefaultCPUGenerator().get_state(), /*is_buffer=*/true);
    if (gpu_) archive.write(kGpuGenerator, at::globalContext().defaultGenerator(*gpu_).get_state(), true);
    for (const Object& each : objects_) {
      torch::serialize::OutputArchive nested(archive.compilation_unit());
      each.save(nested);
      archive.write(each.name, nested);
    }
  });
}

void RankObjects::load(const std::string& bytes) const {
  read_archive(bytes, c10::kCPU, [this](torch::serialize::InputArchive& archive) {
    restore(at::detail::getDefaultCPUGenerator(), archive, kCpuGenerator);
    if (gpu_) restore(at::globalContext().defaultGenerator(*gpu_), archive, kGpuGenerator);
    for (const Object& each : objects_) {
      torch::serialize::InputArchive nested;
      if (!archive.try_read(each.name, nested)) throw UsageError("the checkpoint has no '" + each.name + "'");
      each.load(nested);
    }
  });
}

}  // namespace kolo
