#pragma once

namespace kolo::kernels {

// The device code of device_kernels() as one fatbin inside this library, for cuda::KernelImage; null in a build without
// device code. Lives as long as the process.
[[nodiscard]] const void* device_image() noexcept;

}  // namespace kolo::kernels
