#include "kernels/device_kernels.h"

#include <array>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "kernels/device_kernel_list.h"
#include "kernels/device_touches.h"

namespace kolo::kernels {
namespace {

constexpr std::size_t kMostArgumentBytes = 4096;

template <class Arguments, void (*body)(const Arguments&, const Position&)>
void run(const void* arguments, unsigned blocks, unsigned threads) {
  static_assert(std::is_trivially_copyable_v<Arguments> && sizeof(Arguments) <= kMostArgumentBytes);
  for (unsigned block = 0; block < blocks; ++block) {
    for (unsigned thread = 0; thread < threads; ++thread) {
      body(*static_cast<const Arguments*>(arguments), {block, blocks, thread, threads});
    }
  }
}

template <class Arguments, std::vector<Touched> (*touches)(const Arguments&)>
std::vector<Touched> touched(const void* arguments) {
  return touches(*static_cast<const Arguments*>(arguments));
}

#define KOLO_LIST_KERNEL(name, Arguments) \
  DeviceKernel{"kolo_" #name, sizeof(Arguments), run<Arguments, name##_body>, touched<Arguments, name##_touches>},
constexpr std::array kKernels{KOLO_DEVICE_KERNELS(KOLO_LIST_KERNEL)};

}  // namespace

std::span<const DeviceKernel> device_kernels() noexcept { return kKernels; }

void require_aligned(const void* address, std::size_t bytes) {
  if (behind(address, bytes) == 0) return;
  throw std::logic_error("a kernel accesses " + std::to_string(bytes) + " bytes at an address " +
                         std::to_string(behind(address, bytes)) + " behind a multiple of that");
}

}  // namespace kolo::kernels
