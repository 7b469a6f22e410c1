#pragma once
// Operators as operations: what torch calls now, the device does when its stream comes to it, on its own memory, with
// the operator's kernel for the CPU.
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <functional>
#include <string>
#include <vector>

#include "support/device/simulated_device.h"

namespace kolo::test {

// The memory of a tensor of the device as a tensor of the host, which owns nothing. For operations: nobody else may
// look.
[[nodiscard]] at::Tensor on_host(const at::Tensor& tensor);
// The bytes from its first to its last element; of a view with gaps, those in the gaps too.
[[nodiscard]] Range footprint(const at::Tensor& tensor, Access access);
// Puts `run` into the current stream of `device`. Calls of torch in it go to the CPU's kernels, without autograd.
void enqueue(const c10::Device& device, std::string what, std::vector<Range> ranges, std::function<void()> run);

// Any operator, for the dispatcher. What it returns is allocated now, in the current stream.
void queue_call(const c10::OperatorHandle& op, c10::Stack* stack);

}  // namespace kolo::test
