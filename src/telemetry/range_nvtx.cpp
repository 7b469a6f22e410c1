#include <nvtx3/nvToolsExt.h>

#include "telemetry/range.h"

namespace kolo::telemetry {
namespace {

// One for the process, as the profiler's view of it: registered when first used, for good.
nvtxDomainHandle_t domain() noexcept {
  static const nvtxDomainHandle_t handle = nvtxDomainCreateA("kolo");
  return handle;
}

}  // namespace

Range::Range(const char* name, std::uint64_t number) noexcept {
  nvtxEventAttributes_t attributes{};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = name;
  attributes.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
  attributes.payload.ullValue = number;
  nvtxDomainRangePushEx(domain(), &attributes);
}

Range::~Range() { nvtxDomainRangePop(domain()); }

}  // namespace kolo::telemetry
