// Holds runtime_api.h to the vendor's header. Compiled where that is found, linked nowhere: all of it is static_assert.
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstddef>

#include "cuda/abi_form.h"
#include "cuda/runtime_calls.h"

namespace kolo::cuda {
namespace {

#define KOLO_CUDA_SAME(member, function)                                              \
  static_assert(SameCall<decltype(RuntimeApi::member), decltype(&::function)>::value, \
                "RuntimeApi::" #member " is not declared like " #function);
KOLO_CUDA_CALLS(KOLO_CUDA_SAME)
#undef KOLO_CUDA_SAME
static_assert(SameCall<decltype(RuntimeApi::context_state), decltype(&::cuDevicePrimaryCtxGetState)>::value);

template <class Value>
constexpr bool is(Value ours, int vendors) {
  return static_cast<int>(ours) == vendors;
}

static_assert(is(kSuccess, cudaSuccess) && is(kNotReady, cudaErrorNotReady));
static_assert(is(CopyKind::host_to_host, cudaMemcpyHostToHost) &&
              is(CopyKind::host_to_device, cudaMemcpyHostToDevice) &&
              is(CopyKind::device_to_host, cudaMemcpyDeviceToHost) &&
              is(CopyKind::device_to_device, cudaMemcpyDeviceToDevice) && is(CopyKind::by_address, cudaMemcpyDefault));
static_assert(is(CaptureMode::nothing_unsafe, cudaStreamCaptureModeGlobal) &&
              is(CaptureMode::as_if_alone, cudaStreamCaptureModeThreadLocal) &&
              is(CaptureMode::anything, cudaStreamCaptureModeRelaxed));
static_assert(kStreamNonBlocking == cudaStreamNonBlocking && kEventDisableTiming == cudaEventDisableTiming &&
              kHostAllocPortable == cudaHostAllocPortable && kHostRegisterPortable == cudaHostRegisterPortable);
static_assert(is(Attribute::multiprocessors, cudaDevAttrMultiProcessorCount) &&
              is(Attribute::compute_major, cudaDevAttrComputeCapabilityMajor) &&
              is(Attribute::compute_minor, cudaDevAttrComputeCapabilityMinor));
static_assert(is(PeerAttribute::access, cudaDevP2PAttrAccessSupported) &&
              is(PeerAttribute::native_atomics, cudaDevP2PAttrNativeAtomicSupported));
static_assert(offsetof(DeviceProperties, name) == offsetof(cudaDeviceProp, name) &&
              offsetof(DeviceProperties, uuid) == offsetof(cudaDeviceProp, uuid) &&
              offsetof(DeviceProperties, memory) == offsetof(cudaDeviceProp, totalGlobalMem) &&
              sizeof(DeviceProperties) >= sizeof(cudaDeviceProp));

}  // namespace
}  // namespace kolo::cuda
