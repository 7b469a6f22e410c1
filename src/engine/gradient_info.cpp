#include "kolo/gradient_reducer.h"

namespace kolo {

std::size_t GradientInfo::count() const noexcept {
  std::size_t result = 1;
  for (const auto extent : sizes) result *= static_cast<std::size_t>(extent);
  return result;
}

std::size_t GradientInfo::bytes() const noexcept { return count() * size_of(dtype); }

}  // namespace kolo
