#include "cuda/kernel.h"

#include "kolo/error.h"

namespace kolo::cuda {

KernelImage::~KernelImage() {
  if (library_ != nullptr && runtime_->api().unload_library(library_) != kSuccess) runtime_->api().take_last_error();
}

// A library and its kernels belong to no device: the runtime takes them to each when they are first launched there.
KernelHandle KernelImage::find(std::string_view name) {
  const std::lock_guard held(lock_);
  if (const auto found = kernels_.find(name); found != kernels_.end()) return found->second;
  if (image_ == nullptr) {
    throw UsageError("this build of kolo has no device code: kernel " + std::string(name) +
                     " cannot run on a GPU. Build kolo with a CUDA compiler (KOLO_WITH_CUDA=ON)");
  }
  const RuntimeApi& api = runtime_->api();
  if (library_ == nullptr) {
    runtime_->check(api.load_library(&library_, image_, nullptr, nullptr, 0, nullptr, nullptr, 0),
                    "cudaLibraryLoadData");
  }
  const std::string text(name);  // ends in a zero
  KernelHandle kernel = nullptr;
  runtime_->check(api.get_kernel(&kernel, library_, text.c_str()), "cudaLibraryGetKernel of " + text);
  return kernels_.emplace(text, kernel).first->second;
}

void KernelImage::launch_with(const Launch& launch, void* arguments, Stream stream) {
  const DeviceGuard guard(*runtime_, stream.device);
  KernelHandle const kernel = find(launch.kernel);
  runtime_->check(
      runtime_->api().launch(kernel, {launch.blocks, 1, 1}, {launch.threads, 1, 1}, &arguments, 0, stream.handle),
      "cudaLaunchKernel of " + std::string(launch.kernel));
}

}  // namespace kolo::cuda
