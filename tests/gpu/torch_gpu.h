#pragma once
// The device that the tests with LibTorch train on: this rank's GPU (torch_gpu.cpp), or the CPU, where the tests
// themselves are tried on any machine (torch_on_cpu.cpp). Linked in.
#include <c10/core/Device.h>
#include <c10/core/Stream.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "kolo/context.h"

namespace kolo::test {

// Collective. Before anything else asks LibTorch for a device.
[[nodiscard]] c10::Device training_device(Context& context);

// A stream beside the current one; of the CPU there is only one.
[[nodiscard]] inline c10::Stream side_stream(const c10::Device& device) {
  return c10::impl::VirtualGuardImpl(device.type()).getNewStream(device);
}

}  // namespace kolo::test
