#pragma once
// Each member of RuntimeApi that is of the runtime, with the name of its function, in one list for the loader, for the
// check that a table is complete, and for abi_check.cpp. A macro, because functions have no names that the language
// could list.
#include "cuda/runtime_api.h"

#define KOLO_CUDA_CALLS(CALL)                                      \
  CALL(runtime_version, cudaRuntimeGetVersion)                     \
  CALL(driver_version, cudaDriverGetVersion)                       \
  CALL(error_name, cudaGetErrorName)                               \
  CALL(error_text, cudaGetErrorString)                             \
  CALL(take_last_error, cudaGetLastError)                          \
  CALL(device_count, cudaGetDeviceCount)                           \
  CALL(get_device, cudaGetDevice)                                  \
  CALL(set_device, cudaSetDevice)                                  \
  CALL(exchange_capture_mode, cudaThreadExchangeStreamCaptureMode) \
  CALL(device_attribute, cudaDeviceGetAttribute)                   \
  CALL(device_properties, cudaGetDeviceProperties)                 \
  CALL(pci_bus_id, cudaDeviceGetPCIBusId)                          \
  CALL(device_at, cudaDeviceGetByPCIBusId)                         \
  CALL(peer_attribute, cudaDeviceGetP2PAttribute)                  \
  CALL(stream_priorities, cudaDeviceGetStreamPriorityRange)        \
  CALL(stream_create, cudaStreamCreateWithPriority)                \
  CALL(stream_destroy, cudaStreamDestroy)                          \
  CALL(stream_query, cudaStreamQuery)                              \
  CALL(stream_synchronize, cudaStreamSynchronize)                  \
  CALL(stream_wait_event, cudaStreamWaitEvent)                     \
  CALL(stream_is_capturing, cudaStreamIsCapturing)                 \
  CALL(event_create, cudaEventCreateWithFlags)                     \
  CALL(event_destroy, cudaEventDestroy)                            \
  CALL(event_record, cudaEventRecord)                              \
  CALL(event_query, cudaEventQuery)                                \
  CALL(event_elapsed_time, cudaEventElapsedTime)                   \
  CALL(allocate, cudaMalloc)                                       \
  CALL(release, cudaFree)                                          \
  CALL(allocate_pinned, cudaHostAlloc)                             \
  CALL(release_pinned, cudaFreeHost)                               \
  CALL(register_host, cudaHostRegister)                            \
  CALL(unregister_host, cudaHostUnregister)                        \
  CALL(copy, cudaMemcpyAsync)                                      \
  CALL(fill, cudaMemsetAsync)                                      \
  CALL(load_library, cudaLibraryLoadData)                          \
  CALL(unload_library, cudaLibraryUnload)                          \
  CALL(get_kernel, cudaLibraryGetKernel)                           \
  CALL(launch, cudaLaunchKernel)

namespace kolo::cuda {

#define KOLO_CUDA_COUNT(member, function) +1
inline constexpr std::size_t kCalls = 0 KOLO_CUDA_CALLS(KOLO_CUDA_COUNT);
#undef KOLO_CUDA_COUNT
inline constexpr std::size_t kDriverCalls = 1;  // context_state
static_assert(sizeof(RuntimeApi) == (kCalls + kDriverCalls) * sizeof(void (*)()),
              "a member is missing in the list above");

// Calls each(name of the function, the member) for every member of the list.
template <class Api, class F>
void for_each_call(Api& api, F&& each) {
#define KOLO_CUDA_EACH(member, function) each(#function, api.member);
  KOLO_CUDA_CALLS(KOLO_CUDA_EACH)
#undef KOLO_CUDA_EACH
}

}  // namespace kolo::cuda
