#include "nccl/environment.h"

#include "base/environment.h"

namespace kolo::nccl {

Environment wanted_environment(const Environment& present, const EnvironmentNeeds& needs) {
  Environment wanted;
  if (needs.shared_device) {
    // NCCL refuses two ranks on one device of one host: so each says it is on a host of its own, and talks over
    // sockets.
    wanted["NCCL_HOSTID"] = "r" + std::to_string(needs.rank);
    wanted["NCCL_NET"] = "Socket";
    wanted["NCCL_IB_DISABLE"] = "1";
    wanted["NCCL_NVLS_ENABLE"] = "0";
    wanted["NCCL_RAS_ENABLE"] = "0";  // its ports would collide
  }
  std::erase_if(wanted, [&](const auto& entry) { return present.contains(entry.first); });
  return wanted;
}

std::string value_of(const Environment& environment, const std::string& name) {
  const auto found = environment.find(name);
  return found == environment.end() ? std::string() : found->second;
}

Environment nccl_environment() { return base::get_environment_with_prefix("NCCL_"); }

std::string blocking_trouble(const Environment& environment) {
  const std::string blocking = value_of(environment, "NCCL_COMM_BLOCKING");
  if (blocking.empty() || blocking == "0") return {};
  return "NCCL_COMM_BLOCKING=" + blocking + " makes NCCL wait for peers without a timeout; unset it";
}

Environment prepare_environment(const EnvironmentNeeds& needs) {
  Environment holds = nccl_environment();
  for (const auto& [name, value] : wanted_environment(holds, needs)) {
    base::set_environment(name, value);
    holds[name] = value;
  }
  return holds;
}

}  // namespace kolo::nccl
