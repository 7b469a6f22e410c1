#pragma once
// The members of NcclApi and what NCCL calls them: CALL(member, function).
#include "nccl/nccl_api.h"

// Those that every version has which kolo takes.
#define KOLO_NCCL_CALLS(CALL)              \
  CALL(version, ncclGetVersion)            \
  CALL(unique_id, ncclGetUniqueId)         \
  CALL(error_text, ncclGetErrorString)     \
  CALL(last_error, ncclGetLastError)       \
  CALL(init, ncclCommInitRankConfig)       \
  CALL(finalize, ncclCommFinalize)         \
  CALL(destroy, ncclCommDestroy)           \
  CALL(abort_comm, ncclCommAbort)          \
  CALL(async_error, ncclCommGetAsyncError) \
  CALL(group_start, ncclGroupStart)        \
  CALL(group_end, ncclGroupEnd)            \
  CALL(all_reduce, ncclAllReduce)          \
  CALL(broadcast, ncclBroadcast)           \
  CALL(reduce, ncclReduce)                 \
  CALL(all_gather, ncclAllGather)          \
  CALL(reduce_scatter, ncclReduceScatter)

// Those that are new in 2.19, and null before.
#define KOLO_NCCL_NEWER_CALLS(CALL)       \
  CALL(allocate, ncclMemAlloc)            \
  CALL(release, ncclMemFree)              \
  CALL(register_buffer, ncclCommRegister) \
  CALL(deregister_buffer, ncclCommDeregister)
