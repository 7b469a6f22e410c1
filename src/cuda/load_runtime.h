#pragma once
// Where load_runtime() looks, said by itself, so that tests can look elsewhere.
#include <filesystem>
#include <string>
#include <vector>

#include "cuda/runtime.h"

namespace kolo::cuda {

struct RuntimeSearch {
  std::vector<std::string> names;              // "libcudart.so.13", the most wanted first
  std::vector<std::filesystem::path> folders;  // tried before the system's own search
};

// What load_runtime() does: the names of the versions that kolo knows, the folders where LibTorch keeps them.
[[nodiscard]] RuntimeSearch usual_search();
// A library of these names that is loaded already is taken, or refused, for good: streams and events come from it. Else
// the first that can be used.
[[nodiscard]] RuntimePtr load_runtime(const RuntimeSearch& search);

}  // namespace kolo::cuda
