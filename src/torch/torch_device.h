#pragma once
// Devices as torch knows them: by what each backend has registered with c10. So kolo links nothing of CUDA's, and works
// with every backend that hands out streams of the CUDA runtime.
#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>

#include "kolo/types.h"

namespace kolo {

// Memory of the host, or of a device that kolo can reduce on.
[[nodiscard]] bool is_reducible(const c10::Device& device) noexcept;
// Whether its bytes are its values: neither lazily negated or conjugated, nor a constant zero without memory.
[[nodiscard]] bool is_plain(const at::Tensor& tensor);
// The same values in a plain tensor: itself, or a copy.
[[nodiscard]] at::Tensor resolved(const at::Tensor& tensor);
// The tensor in the host's memory, plain, each element once: itself, or a copy. For a copy from a device the host
// waits.
[[nodiscard]] at::Tensor host_form(const at::Tensor& tensor);
// Gives `tensor` the values of `form`, which is its host_form(); if that is the tensor itself, its memory has been
// written to. Takes inference tensors and those that require a gradient, in any mode.
void write_back(const at::Tensor& tensor, const at::Tensor& form);
// The stream in which the calling thread enqueues on `device`, which is not the host.
[[nodiscard]] c10::Stream current_stream(const c10::Device& device);
// What is enqueued in `later` from now on comes after what is in `earlier` by now. Both of one device.
void order_streams(const c10::Stream& later, const c10::Stream& earlier);
[[nodiscard]] Stream to_stream(const c10::Stream& stream);
// `stream` uses the tensor: its memory is given to nobody else before what is enqueued there, when the tensor goes, has
// passed. Nothing for memory of the host, and for memory that is not the caching allocator's.
void keep_for(const at::Tensor& tensor, const c10::Stream& stream);
// Gives memory that torch keeps of the device, and no tensor uses, back to it.
void release_cached(const c10::Device& device) noexcept;

}  // namespace kolo
