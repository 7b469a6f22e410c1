// What a profiler is to NVTX: a library that the process loads when its first range begins, and that is told of every
// range from then on. It counts those of the domain "kolo" and notes the last name and number.
#include <nvtx3/nvToolsExt.h>

#include <cstring>

#include "unit/telemetry/range_listener.h"

namespace {

Heard heard;
int kolo_domain = 0;  // its address is the handle

nvtxDomainHandle_t NVTX_API create(const char* name) {
  return std::strcmp(name, "kolo") == 0 ? reinterpret_cast<nvtxDomainHandle_t>(&kolo_domain) : nullptr;
}

int NVTX_API push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* event) {
  if (domain != reinterpret_cast<nvtxDomainHandle_t>(&kolo_domain)) return -1;
  heard.number = event->payload.ullValue;
  std::strncpy(heard.name, event->message.ascii, sizeof heard.name - 1);
  return heard.pushes++;
}

int NVTX_API pop(nvtxDomainHandle_t domain) {
  if (domain != reinterpret_cast<nvtxDomainHandle_t>(&kolo_domain)) return -1;
  return ++heard.pops;
}

template <class Function>
void listen(NvtxFunctionTable table, int call, Function* function) {
  *table[call] = reinterpret_cast<NvtxFunctionPointer>(function);
}

}  // namespace

extern "C" int NVTX_API InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table);

int NVTX_API InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table) {
  const auto* callbacks = static_cast<const NvtxExportTableCallbacks*>(get_table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned size = 0;
  if (callbacks == nullptr || callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) == 0) return 0;
  listen(table, NVTX_CBID_CORE2_DomainCreateA, create);
  listen(table, NVTX_CBID_CORE2_DomainRangePushEx, push);
  listen(table, NVTX_CBID_CORE2_DomainRangePop, pop);
  return 1;
}

const Heard* heard_ranges() { return &heard; }
