// What CUDA itself takes for a mistake while a graph is captured, and what it allows: the guard of kolo's calls is made
// for that, and the simulated device only repeats it.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <thread>

#include "cuda/memory.h"
#include "cuda/stream.h"
#include "gpu/gpu.h"

namespace kolo::test {
namespace {

constexpr int kGlobal = 0;  // cudaStreamCaptureModeGlobal, which LibTorch takes

// Of the runtime that this process has loaded. kolo captures nothing, so its table does not have them.
template <class Function>
Function find(const char* name) {
  void* library = nullptr;
  for (const char* file : {"libcudart.so.13", "libcudart.so.12"}) {
    if (library == nullptr) library = dlopen(file, RTLD_NOW | RTLD_NOLOAD);
  }
  return library == nullptr ? nullptr : reinterpret_cast<Function>(dlsym(library, name));
}

TEST(Capture, IsNotLostByWhatKoloAsksMeanwhile) {
  const auto& runtime = gpu_runtime();
  const auto begin = find<int (*)(cuda::StreamHandle, int)>("cudaStreamBeginCapture");
  const auto end = find<int (*)(cuda::StreamHandle, void**)>("cudaStreamEndCapture");
  ASSERT_TRUE(begin != nullptr && end != nullptr);
  const cuda::OwnStream captured(runtime, 0), other(runtime, 0);
  cuda::Event event(runtime, 0);
  event.record(other.view());
  ASSERT_EQ(begin(captured.view().handle, kGlobal), cuda::kSuccess);
  std::thread([&] {
    static_cast<void>(event.passed());
    static_cast<void>(other.idle());
    const cuda::DeviceBuffer memory(runtime, 0, 1 << 20);
    const cuda::PinnedBuffer pinned(runtime, 0, 1 << 20);
  }).join();
  void* graph = nullptr;
  EXPECT_EQ(end(captured.view().handle, &graph), cuda::kSuccess);
  EXPECT_NE(graph, nullptr);
}

}  // namespace
}  // namespace kolo::test
