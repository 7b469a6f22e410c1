#include "runtime/start_line.h"

#include <algorithm>
#include <cstdio>
#include <map>

#include "base/strings.h"

namespace kolo::runtime {
namespace {

std::string gibibytes(std::size_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f GiB", static_cast<double>(bytes) / static_cast<double>(std::size_t{1} << 30));
  return text;
}

// "between all", or "between 2 of 6 pairs".
std::string between(int some, int all) {
  return some == all ? "between all" : "between " + std::to_string(some) + " of " + std::to_string(all) + " pairs";
}

}  // namespace

std::string links_text(const std::vector<std::string>& devices, const LinkBetween& link_between) {
  int pairs = 0;
  int access = 0;
  int atomics = 0;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    for (std::size_t k = i + 1; k < devices.size(); ++k) {
      const auto link = link_between(devices[i], devices[k]);
      if (!link.has_value()) return "links unknown: this rank does not see all devices";
      ++pairs;
      access += *link == cuda::Link::none ? 0 : 1;
      atomics += *link == cuda::Link::peer_access_with_atomics ? 1 : 0;
    }
  }
  if (pairs == 0) return {};
  if (access == 0) return "no peer access between them";
  std::string text = "peer access " + between(access, pairs);
  if (atomics != 0) text += ", with native atomics" + (atomics == access ? "" : " " + between(atomics, pairs));
  return text;
}

std::string host_text(const std::vector<DeviceFacts>& ranks, int host_number, const LinkBetween& link_between) {
  std::vector<Rank> here;
  std::string host;
  std::vector<std::string> devices;                         // each once, in the order of ranks
  std::map<std::string, std::vector<std::string>> by_kind;  // addresses
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const DeviceFacts& each = ranks[r];
    if (each.host_number != host_number) continue;
    host = each.host;
    here.push_back(static_cast<Rank>(r));
    if (std::ranges::find(devices, each.device) != devices.end()) continue;  // shared
    devices.push_back(each.device);
    by_kind[each.name + ", " + gibibytes(each.memory)].push_back(each.device);
  }
  std::string text = base::ranks_text(here) + " on " + host + ":";
  for (const auto& [kind, addresses] : by_kind) {
    text += " " + std::to_string(addresses.size()) + " x " + kind + " (" + base::join(addresses, ", ") + "),";
  }
  const std::string links = links_text(devices, link_between);
  if (links.empty()) text.pop_back();
  return text + (links.empty() ? "" : " " + links);
}

std::string start_line(const std::vector<DeviceFacts>& ranks, int host_number, const cuda::Runtime& runtime,
                       const std::string& reduction) {
  int version = 0;
  int driver = 0;
  runtime.check(runtime.api().runtime_version(&version), "cudaRuntimeGetVersion");
  runtime.check(runtime.api().driver_version(&driver), "cudaDriverGetVersion");
  const auto between = [&](const std::string& from, const std::string& to) {
    return cuda::link_between(runtime, from, to);
  };
  return "devices: " + host_text(ranks, host_number, between) + "; CUDA runtime " + cuda::version_text(version) +
         ", driver for CUDA " + cuda::version_text(driver) + "; " + reduction;
}

}  // namespace kolo::runtime
