// Holds nccl_api.h to the vendor's header, where there is one: compiled, never linked.
#include <nccl.h>

#include <cstddef>

#include "cuda/abi_form.h"
#include "nccl/nccl_calls.h"

namespace kolo::nccl {
namespace {

#define KOLO_NCCL_SAME(member, function)                                                 \
  static_assert(cuda::SameCall<decltype(NcclApi::member), decltype(&::function)>::value, \
                "NcclApi::" #member " is not declared like " #function);
KOLO_NCCL_CALLS(KOLO_NCCL_SAME)
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 19, 0)
KOLO_NCCL_NEWER_CALLS(KOLO_NCCL_SAME)
#endif
#undef KOLO_NCCL_SAME

static_assert(static_cast<int>(Result::success) == ncclSuccess);
static_assert(static_cast<int>(Result::unhandled_cuda_error) == ncclUnhandledCudaError);
static_assert(static_cast<int>(Result::system_error) == ncclSystemError);
static_assert(static_cast<int>(Result::internal_error) == ncclInternalError);
static_assert(static_cast<int>(Result::invalid_argument) == ncclInvalidArgument);
static_assert(static_cast<int>(Result::invalid_usage) == ncclInvalidUsage);
static_assert(static_cast<int>(Result::remote_error) == ncclRemoteError);
static_assert(static_cast<int>(Result::in_progress) == ncclInProgress);
static_assert(static_cast<int>(Op::sum) == ncclSum && static_cast<int>(Op::product) == ncclProd);
static_assert(static_cast<int>(Op::max) == ncclMax && static_cast<int>(Op::min) == ncclMin);
static_assert(static_cast<int>(Type::i8) == ncclInt8 && static_cast<int>(Type::u8) == ncclUint8);
static_assert(static_cast<int>(Type::i32) == ncclInt32 && static_cast<int>(Type::u32) == ncclUint32);
static_assert(static_cast<int>(Type::i64) == ncclInt64 && static_cast<int>(Type::u64) == ncclUint64);
static_assert(static_cast<int>(Type::f16) == ncclFloat16 && static_cast<int>(Type::bf16) == ncclBfloat16);
static_assert(static_cast<int>(Type::f32) == ncclFloat32 && static_cast<int>(Type::f64) == ncclFloat64);
static_assert(sizeof(UniqueId) == sizeof(ncclUniqueId));

// Newer headers add at the end, older ones end earlier: what both have must lie alike.
static_assert(offsetof(CommConfig, magic) == offsetof(ncclConfig_t, magic));
static_assert(offsetof(CommConfig, blocking) == offsetof(ncclConfig_t, blocking));
static_assert(offsetof(CommConfig, min_ctas) == offsetof(ncclConfig_t, minCTAs));
static_assert(offsetof(CommConfig, max_ctas) == offsetof(ncclConfig_t, maxCTAs));
static_assert(offsetof(CommConfig, net_name) == offsetof(ncclConfig_t, netName));
static_assert(offsetof(CommConfig, split_share) == offsetof(ncclConfig_t, splitShare));
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 0)
static_assert(sizeof(CommConfig) <= sizeof(ncclConfig_t));
static_assert(offsetof(CommConfig, nvlink_centric_sched) == offsetof(ncclConfig_t, nvlinkCentricSched));
#endif

}  // namespace
}  // namespace kolo::nccl
