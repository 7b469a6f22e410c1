#include "nccl/environment.h"

#include "base/environment.h"
#include "nccl/library.h"

namespace kolo::nccl {
namespace {

constexpr const char* kTunerVariable = "NCCL_TUNER_PLUGIN";
constexpr const char* kInThisProcess = "STATIC_PLUGIN";

}  // namespace

Environment wanted_environment(const Environment& present, bool shared_device, Rank rank) {
  Environment wanted{{kTunerVariable, kInThisProcess}};
  if (shared_device) {
    // NCCL refuses two ranks on one device of one host: so each says it is on a host of its own, and talks over
    // sockets.
    wanted["NCCL_HOSTID"] = "r" + std::to_string(rank);
    wanted["NCCL_NET"] = "Socket";
    wanted["NCCL_IB_DISABLE"] = "1";
    wanted["NCCL_NVLS_ENABLE"] = "0";
    wanted["NCCL_RAS_ENABLE"] = "0";  // its ports would collide
  }
  std::erase_if(wanted, [&](const auto& entry) { return present.contains(entry.first); });
  return wanted;
}

bool has_our_tuner(const Environment& environment, int version) {
  const auto found = environment.find(kTunerVariable);
  return version >= kTunerVersion && found != environment.end() && found->second == kInThisProcess;
}

Environment nccl_environment() { return base::get_environment_with_prefix("NCCL_"); }

Environment prepare_environment(bool shared_device, Rank rank) {
  Environment holds = nccl_environment();
  for (const auto& [name, value] : wanted_environment(holds, shared_device, rank)) {
    base::set_environment(name, value);
    holds[name] = value;
  }
  return holds;
}

}  // namespace kolo::nccl
