#pragma once
// The CUDA runtime as a table of the calls that kolo makes: from the library that this process has loaded
// (load_runtime.cpp), or from the simulated device of the tests. Declared here, in the runtime's own binary form, so
// that building kolo takes no toolkit; where there is one, abi_check.cpp holds the table to its headers.
#include <cstddef>

namespace kolo::cuda {

using Status = int;  // cudaError_t
inline constexpr Status kSuccess = 0;
inline constexpr Status kOutOfMemory = 2;
inline constexpr Status kNotReady = 600;

using StreamHandle = void*;   // cudaStream_t; null: the device's default stream
using EventHandle = void*;    // cudaEvent_t
using LibraryHandle = void*;  // cudaLibrary_t
using KernelHandle = void*;   // cudaKernel_t

struct Dim3 {
  unsigned x = 1;
  unsigned y = 1;
  unsigned z = 1;
};

enum class CopyKind : int { host_to_host, host_to_device, device_to_host, device_to_device, by_address };

inline constexpr unsigned kStreamNonBlocking = 1;     // cudaStreamNonBlocking: not ordered with the default stream
inline constexpr unsigned kEventTiming = 0;           // cudaEventDefault
inline constexpr unsigned kEventDisableTiming = 2;    // cudaEventDisableTiming
inline constexpr unsigned kHostAllocPortable = 1;     // cudaHostAllocPortable: pinned for every device
inline constexpr unsigned kHostRegisterPortable = 1;  // cudaHostRegisterPortable: the same

enum class Attribute : int {  // cudaDeviceAttr
  multiprocessors = 16,
  compute_major = 75,
  compute_minor = 76,
};

enum class PeerAttribute : int {  // cudaDeviceP2PAttr: of the way from one device to another
  access = 2,
  native_atomics = 3,
};

// cudaStreamCaptureMode: what a thread may do while a graph is captured, by itself or by another thread.
enum class CaptureMode : int { nothing_unsafe, as_if_alone, anything };

// The beginning of cudaDeviceProp, which CUDA 12 and 13 have alike, and room for what they have behind it.
struct DeviceProperties {
  char name[256];
  char uuid[16];
  char other_identity[12];
  std::size_t memory;  // bytes
  char rest[4096];
};

// Member by member the call of the same meaning: what it takes, in its order. All of them are safe from any thread; the
// current device belongs to the thread.
struct RuntimeApi {
  Status (*runtime_version)(int* version) = nullptr;  // cudaRuntimeGetVersion
  Status (*driver_version)(int* version) = nullptr;   // cudaDriverGetVersion
  const char* (*error_name)(Status) = nullptr;
  const char* (*error_text)(Status) = nullptr;  // cudaGetErrorString
  Status (*take_last_error)() = nullptr;        // cudaGetLastError

  Status (*device_count)(int* count) = nullptr;
  Status (*get_device)(int* device) = nullptr;
  Status (*set_device)(int device) = nullptr;
  Status (*exchange_capture_mode)(CaptureMode* mode) = nullptr;  // cudaThreadExchangeStreamCaptureMode
  Status (*device_attribute)(int* value, Attribute attribute, int device) = nullptr;
  Status (*device_properties)(void* properties, int device) = nullptr;  // writes DeviceProperties
  Status (*pci_bus_id)(char* text, int length, int device) = nullptr;
  Status (*device_at)(int* device, const char* pci_bus_id) = nullptr;  // cudaDeviceGetByPCIBusId
  Status (*peer_attribute)(int* value, PeerAttribute attribute, int from,
                           int to) = nullptr;  // cudaDeviceGetP2PAttribute

  Status (*stream_priorities)(int* least, int* greatest) = nullptr;  // smaller numbers are greater priorities
  Status (*stream_create)(StreamHandle* stream, unsigned flags, int priority) = nullptr;
  Status (*stream_destroy)(StreamHandle stream) = nullptr;
  Status (*stream_query)(StreamHandle stream) = nullptr;
  Status (*stream_synchronize)(StreamHandle stream) = nullptr;
  Status (*stream_wait_event)(StreamHandle stream, EventHandle event, unsigned flags) = nullptr;
  Status (*stream_is_capturing)(StreamHandle stream, int* status) = nullptr;

  Status (*event_create)(EventHandle* event, unsigned flags) = nullptr;
  Status (*event_destroy)(EventHandle event) = nullptr;
  Status (*event_record)(EventHandle event, StreamHandle stream) = nullptr;
  Status (*event_query)(EventHandle event) = nullptr;
  Status (*event_elapsed_time)(float* milliseconds, EventHandle from, EventHandle to) = nullptr;

  Status (*allocate)(void** memory, std::size_t bytes) = nullptr;                         // cudaMalloc
  Status (*release)(void* memory) = nullptr;                                              // cudaFree
  Status (*allocate_pinned)(void** memory, std::size_t bytes, unsigned flags) = nullptr;  // cudaHostAlloc
  Status (*release_pinned)(void* memory) = nullptr;                                       // cudaFreeHost
  Status (*register_host)(void* memory, std::size_t bytes, unsigned flags) = nullptr;     // cudaHostRegister
  Status (*unregister_host)(void* memory) = nullptr;                                      // cudaHostUnregister
  Status (*copy)(void* to, const void* from, std::size_t bytes, CopyKind kind, StreamHandle stream) = nullptr;
  Status (*fill)(void* memory, int value, std::size_t bytes, StreamHandle stream) = nullptr;  // cudaMemsetAsync

  Status (*load_library)(LibraryHandle* library, const void* image, void* jit_options, void** jit_values,
                         unsigned jit_count, void* library_options, void** library_values,
                         unsigned library_count) = nullptr;  // cudaLibraryLoadData
  Status (*unload_library)(LibraryHandle library) = nullptr;
  Status (*get_kernel)(KernelHandle* kernel, LibraryHandle library, const char* name) = nullptr;
  Status (*launch)(const void* kernel, Dim3 grid, Dim3 block, void** arguments, std::size_t shared_bytes,
                   StreamHandle stream) = nullptr;  // cudaLaunchKernel

  // Of the driver, and null where that is not known: whether this process has a context on a device.
  Status (*context_state)(int device, unsigned* flags, int* active) = nullptr;  // cuDevicePrimaryCtxGetState
};

}  // namespace kolo::cuda
