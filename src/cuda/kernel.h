#pragma once
// Kernels of an embedded image, and their launch.
#include <cstddef>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "cuda/runtime.h"
#include "kolo/types.h"

namespace kolo::cuda {

// Every kernel of kolo takes one struct, by value: trivially copyable, at most 4 KiB. So whoever stands in for a device
// can copy the arguments without knowing the kernel.
struct Launch {
  std::string_view kernel;  // its name in the image
  unsigned blocks = 1;
  unsigned threads = 1;  // of a block
};

// One process's copy of an image (a fatbin), loaded when a kernel is first used. Thread-safe.
class KernelImage {
 public:
  // `image` lives as long as the process. Null: a build without device code; launch() then throws UsageError saying so.
  KernelImage(RuntimePtr runtime, const void* image) : runtime_(std::move(runtime)), image_(image) {}
  ~KernelImage();
  KernelImage(const KernelImage&) = delete;
  KernelImage& operator=(const KernelImage&) = delete;

  template <class Arguments>
  void launch(const Launch& launch, Arguments arguments, Stream stream) {
    static_assert(std::is_trivially_copyable_v<Arguments> && sizeof(Arguments) <= 4096);
    launch_with(launch, &arguments, stream);
  }
  // False in a build without device code.
  [[nodiscard]] bool exists() const noexcept { return image_ != nullptr; }
  [[nodiscard]] const Runtime& runtime() const noexcept { return *runtime_; }

 private:
  void launch_with(const Launch& launch, void* arguments, Stream stream);
  [[nodiscard]] KernelHandle find(std::string_view name);

  RuntimePtr runtime_;
  const void* image_;
  std::mutex lock_;  // guards what follows
  LibraryHandle library_ = nullptr;
  std::map<std::string, KernelHandle, std::less<>> kernels_;
};

}  // namespace kolo::cuda
