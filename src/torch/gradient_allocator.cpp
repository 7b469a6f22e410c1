#include "torch/gradient_allocator.h"

#include <c10/core/CPUAllocator.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include <algorithm>

namespace kolo {
namespace {

using torch::autograd::AccumulateGrad;
using torch::autograd::Node;

// Nodes between the one that computes a gradient and the parameter's own: a transposition, a cast.
constexpr int kDetours = 3;

// Calls `visit` with the parameters whose gradients come out of `node`, until it returns true.
template <class Visit>
bool visit_parameters(const Node& node, int detours, const Visit& visit) {
  if (const auto* end = dynamic_cast<const AccumulateGrad*>(&node)) {
    return visit(end->variable.unsafeGetTensorImpl());
  }
  for (const auto& edge : node.next_edges()) {
    if (!edge.is_valid()) {
      continue;
    }
    const Node& next = *edge.function;
    const bool on_the_way = next.num_outputs() == 1 && detours > 0;
    if ((on_the_way || next.num_outputs() == 0) && visit_parameters(next, detours - 1, visit)) {
      return true;
    }
  }
  return false;
}

}  // namespace

GradientAllocator& GradientAllocator::instance() {
  static GradientAllocator* const allocator = [] {
    auto* made = new GradientAllocator(c10::GetCPUAllocator());  // never destroyed: LibTorch keeps the pointer
    c10::SetCPUAllocator(made, /*priority=*/255);
    return made;
  }();
  return *allocator;
}

void GradientAllocator::serve(const c10::TensorImpl* parameter, std::size_t bytes,
                              std::shared_ptr<GradientMemory> memory) {
  forget(parameter);
  const std::lock_guard lock(lock_);
  auto kept = std::find_if(kept_.begin(), kept_.end(), [&](const Kept& one) { return one.memory == memory; });
  if (kept == kept_.end()) kept = kept_.insert(kept, {.memory = memory});
  ++kept->parameters;
  parameters_[parameter] = {.bytes = bytes, .memory = std::move(memory)};
  ++sizes_[bytes];
}

void GradientAllocator::forget(const c10::TensorImpl* parameter) {
  const std::lock_guard lock(lock_);
  const auto found = parameters_.find(parameter);
  if (found == parameters_.end()) {
    return;
  }
  const auto size = sizes_.find(found->second.bytes);
  if (--size->second == 0) {
    sizes_.erase(size);
  }
  const auto memory = std::move(found->second.memory);
  parameters_.erase(found);
  --std::find_if(kept_.begin(), kept_.end(), [&](const Kept& one) { return one.memory == memory; })->parameters;
  drop_unused(memory);
}

// The last one first: what is asked for before it is converted into it.
void GradientAllocator::learn(const c10::TensorImpl* parameter, bool found_in_memory) {
  const std::lock_guard lock(lock_);
  const auto found = parameters_.find(parameter);
  if (found == parameters_.end()) {
    return;
  }
  auto& [bytes, memory, asked, skip] = found->second;
  if (!found_in_memory && asked > 0) {
    skip = (skip + asked - 1) % asked;
  }
  asked = 0;
}

c10::DataPtr GradientAllocator::allocate(std::size_t bytes) {
  if (void* block = block_for(bytes)) {
    return {block, block, &give_back, c10::Device(c10::DeviceType::CPU)};
  }
  return rest_->allocate(bytes);
}

void* GradientAllocator::block_for(std::size_t bytes) {
  const auto node = torch::autograd::get_current_node();
  if (node == nullptr) {
    return nullptr;
  }
  const std::lock_guard lock(lock_);
  if (sizes_.count(bytes) == 0) {
    return nullptr;
  }
  void* block = nullptr;
  visit_parameters(*node, kDetours, [&](const c10::TensorImpl* parameter) {
    const auto found = parameters_.find(parameter);
    if (found == parameters_.end() || found->second.bytes != bytes) {
      return false;
    }
    if (found->second.asked++ < found->second.skip) {
      return true;
    }
    const auto& memory = found->second.memory;
    block = memory->take(bytes);
    if (block != nullptr) {
      std::find_if(kept_.begin(), kept_.end(), [&](const Kept& one) { return one.memory == memory; })->blocks++;
    }
    return block != nullptr;
  });
  return block;
}

// What LibTorch frees: a block, or what came through raw_allocate() from the allocator underneath.
void GradientAllocator::give_back(void* memory) {
  if (memory != nullptr && !instance().take_back(memory)) {
    instance().rest_->raw_deallocate(memory);
  }
}

bool GradientAllocator::take_back(void* block) {
  const std::lock_guard lock(lock_);
  const auto home = std::find_if(kept_.begin(), kept_.end(), [&](const Kept& one) { return one.memory->owns(block); });
  if (home == kept_.end()) {
    return false;
  }
  home->memory->give_back(block);
  --home->blocks;
  drop_unused(home->memory);
  return true;
}

// Lets go of memory in which nothing lies and nothing will be made. Lock held.
void GradientAllocator::drop_unused(std::shared_ptr<GradientMemory> memory) {
  const auto kept = std::find_if(kept_.begin(), kept_.end(), [&](const Kept& one) { return one.memory == memory; });
  if (kept != kept_.end() && kept->blocks == 0 && kept->parameters == 0) kept_.erase(kept);
}

}  // namespace kolo
