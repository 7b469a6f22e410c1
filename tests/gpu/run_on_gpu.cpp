// The tests of tests/unit/kernels on a GPU: the same cases, the same references, the same bits. What the tests make
// lies in page-locked memory, which has one address for both sides; so a kernel works on it where it lies, misaligned
// as the case wants it. Kernels in memory of the device are launch_results_test.cpp's.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <memory_resource>
#include <stdexcept>
#include <string>

#include "cuda/kernel.h"
#include "cuda/stream.h"
#include "gpu/gpu.h"
#include "kolo/error.h"
#include "unit/kernels/host_table.h"

namespace kolo::kernels::test {
namespace {

// Page-locked, as large pieces: locking is slow, so a pool cuts them up.
class PageLocked final : public std::pmr::memory_resource {
 private:
  void* do_allocate(std::size_t bytes, std::size_t /*alignment: pages*/) override {
    void* memory = nullptr;
    const auto& runtime = *kolo::test::gpu_runtime();
    runtime.check(runtime.api().allocate_pinned(&memory, bytes, cuda::kHostAllocPortable), "cudaHostAlloc");
    return memory;
  }
  void do_deallocate(void* memory, std::size_t /*bytes*/, std::size_t /*alignment*/) override {
    kolo::test::gpu_runtime()->api().release_pinned(memory);
  }
  [[nodiscard]] bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }
};

class Gpu final : public testing::Environment {
 public:
  void SetUp() override {
    if (!kolo::test::why_no_gpu().empty()) return;  // gpu.cpp fails the program
    runtime_ = kolo::test::gpu_runtime();
    image_ = std::make_unique<cuda::KernelImage>(runtime_, kolo::test::gpu_image());
    stream_ = std::make_unique<cuda::OwnStream>(runtime_, 0);
    pool_ = std::make_unique<std::pmr::unsynchronized_pool_resource>(std::pmr::pool_options{0, 1U << 20}, &pages_);
    std::pmr::set_default_resource(pool_.get());
  }
  void TearDown() override {
    std::pmr::set_default_resource(nullptr);
    pool_.reset();
    stream_.reset();
    image_.reset();
  }
  void run(const DeviceKernel& kernel, const void* arguments, const Grid& grid) {
    launch(kernel, arguments, grid);
    runtime_->check(runtime_->api().stream_synchronize(stream_->view().handle), "after " + std::string(kernel.name));
  }

 private:
  // KernelImage takes a struct of known size: the next larger one holds the arguments.
  template <std::size_t kBytes>
  struct Bytes {
    alignas(16) std::byte bytes[kBytes];
  };
  void launch(const DeviceKernel& kernel, const void* arguments, const Grid& grid) {
    if (kernel.argument_bytes > 1024) throw std::logic_error("more arguments than expected");
    Bytes<1024> copy{};
    std::memcpy(copy.bytes, arguments, kernel.argument_bytes);
    image_->launch({kernel.name, grid.blocks, grid.threads}, copy, stream_->view());
  }

  cuda::RuntimePtr runtime_;
  std::unique_ptr<cuda::KernelImage> image_;
  std::unique_ptr<cuda::OwnStream> stream_;
  PageLocked pages_;
  std::unique_ptr<std::pmr::unsynchronized_pool_resource> pool_;
};

Gpu& gpu() {
  static auto* const only = static_cast<Gpu*>(testing::AddGlobalTestEnvironment(new Gpu));
  return *only;
}
[[maybe_unused]] const Gpu* const kRegistered = &gpu();

}  // namespace

void run(const DeviceKernel& kernel, const void* arguments, const Grid& grid) { gpu().run(kernel, arguments, grid); }

}  // namespace kolo::kernels::test
