#pragma once
// NCCL as a table of the calls that kolo makes: from the library that this process has loaded, or from the simulated
// one of the tests. In NCCL's own binary form (2.18 and newer); abi_check.cpp holds it to nccl.h where there is one.
#include <climits>
#include <cstddef>

#include "cuda/runtime_api.h"

namespace kolo::nccl {

enum class Result : int {  // ncclResult_t
  success,
  unhandled_cuda_error,
  system_error,
  internal_error,
  invalid_argument,
  invalid_usage,
  remote_error,
  in_progress,
};

enum class Op : int { sum, product, max, min };                             // ncclRedOp_t
enum class Type : int { i8, u8, i32, u32, i64, u64, f16, f32, f64, bf16 };  // ncclDataType_t

using Comm = void*;  // ncclComm_t
struct UniqueId {    // ncclUniqueId
  char bytes[128];
};

// ncclConfig_t as of 2.28; an older library reads the part that it knows. kUndefined: NCCL's own choice.
struct CommConfig {
  static constexpr int kUndefined = INT_MIN;
  std::size_t size = sizeof(CommConfig);
  unsigned magic = 0xcafebeef;
  unsigned version = 22800;
  int blocking = kUndefined;
  int cga_cluster_size = kUndefined;
  int min_ctas = kUndefined;
  int max_ctas = kUndefined;
  const char* net_name = nullptr;
  int split_share = kUndefined;
  int traffic_class = kUndefined;
  const char* comm_name = nullptr;
  int collnet_enable = kUndefined;
  int cta_policy = kUndefined;
  int shrink_share = kUndefined;
  int nvls_ctas = kUndefined;
  int channels_per_net_peer = kUndefined;
  int nvlink_centric_sched = kUndefined;
};

struct NcclApi {
  Result (*version)(int* version) = nullptr;                                                   // ncclGetVersion
  Result (*unique_id)(UniqueId* id) = nullptr;                                                 // ncclGetUniqueId
  const char* (*error_text)(Result) = nullptr;                                                 // ncclGetErrorString
  const char* (*last_error)(Comm comm) = nullptr;                                              // ncclGetLastError
  Result (*init)(Comm* comm, int ranks, UniqueId id, int rank, CommConfig* config) = nullptr;  // ncclCommInitRankConfig
  Result (*finalize)(Comm comm) = nullptr;
  Result (*destroy)(Comm comm) = nullptr;
  Result (*abort_comm)(Comm comm) = nullptr;
  Result (*async_error)(Comm comm, Result* error) = nullptr;  // ncclCommGetAsyncError

  Result (*group_start)() = nullptr;
  Result (*group_end)() = nullptr;
  Result (*all_reduce)(const void* in, void* out, std::size_t count, Type type, Op op, Comm comm,
                       cuda::StreamHandle stream) = nullptr;
  Result (*broadcast)(const void* in, void* out, std::size_t count, Type type, int root, Comm comm,
                      cuda::StreamHandle stream) = nullptr;
  Result (*reduce)(const void* in, void* out, std::size_t count, Type type, Op op, int root, Comm comm,
                   cuda::StreamHandle stream) = nullptr;
  Result (*all_gather)(const void* in, void* out, std::size_t count, Type type, Comm comm,
                       cuda::StreamHandle stream) = nullptr;
  Result (*reduce_scatter)(const void* in, void* out, std::size_t count, Type type, Op op, Comm comm,
                           cuda::StreamHandle stream) = nullptr;

  Result (*allocate)(void** memory, std::size_t bytes) = nullptr;                                  // ncclMemAlloc
  Result (*release)(void* memory) = nullptr;                                                       // ncclMemFree
  Result (*register_buffer)(Comm comm, void* memory, std::size_t bytes, void** handle) = nullptr;  // ncclCommRegister
  Result (*deregister_buffer)(Comm comm, void* handle) = nullptr;
};

}  // namespace kolo::nccl
