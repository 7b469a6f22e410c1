#pragma once
// Process settings that change the last bits of LibTorch's results: forward and backward passes, and LibTorch's
// optimizers. Ranks that differ in them are allowed, but weights that each rank updates for itself can drift apart.
#include <string>
#include <utility>
#include <vector>

#include "kolo/context.h"

namespace kolo {

// Name and value of each setting: threads, CPU capability, versions of libraries. The names are the same in each call.
using ExecutionEnvironment = std::vector<std::pair<std::string, std::string>>;

[[nodiscard]] ExecutionEnvironment execution_environment();

// "threads=1 on rank 0, threads=2 on ranks 1, 3": each setting that differs, by rank. Empty if all ranks agree.
[[nodiscard]] std::string differences_of(const std::vector<ExecutionEnvironment>& by_rank);

// Compares the settings of all ranks, and logs a warning on rank 0 if they differ. Collective: one named allgather.
// `name`: of the optimizer that asks, the same on all ranks. Throws what Work::wait() throws.
void warn_of_different_environments(Context& context, const std::string& name);

}  // namespace kolo
