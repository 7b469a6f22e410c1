#include "nccl/network.h"

#include <dlfcn.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <system_error>

#include "base/strings.h"

namespace kolo::nccl {
namespace {

bool equal_in_any_case(const std::string& a, const std::string& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

// NCCL_IB_HCA: names or their beginnings, with ports; "=" in front means whole names, "^" none of these.
bool selected(const std::string& filter, const std::string& device) {
  if (filter.empty()) return true;
  const bool excludes = filter[0] == '^';
  std::size_t at = excludes ? 1 : 0;
  const bool whole = at < filter.size() && filter[at] == '=';
  if (whole) ++at;
  bool named = false;
  while (at <= filter.size()) {
    const std::size_t comma = std::min(filter.find(',', at), filter.size());
    const std::string entry = filter.substr(at, comma - at);
    const std::string name = entry.substr(0, entry.find(':'));
    named = named || (!name.empty() && (whole ? device == name : device.starts_with(name)));
    at = comma + 1;
  }
  return named != excludes;
}

std::vector<std::string> usable(const FastNetwork& network, const Environment& environment) {
  const std::string filter = value_of(environment, "NCCL_IB_HCA");
  std::vector<std::string> names;
  for (const FastDevice& device : network.devices) {
    if (device.active && selected(filter, device.name)) names.push_back(device.name);
  }
  return names;
}

// Why NCCL will not use a device that works; empty: it will.
std::string obstacle(const FastNetwork& network, const Environment& environment) {
  const std::string disabled = value_of(environment, "NCCL_IB_DISABLE");
  if (!disabled.empty() && disabled != "0") return "NCCL_IB_DISABLE=" + disabled + " is set; unset it";
  const std::string net = value_of(environment, "NCCL_NET");
  if (equal_in_any_case(net, "Socket")) return "NCCL_NET=" + net + " is set; unset it";
  if (!network.verbs) return "cannot load libibverbs.so.1; install it (rdma-core, libibverbs1)";
  if (usable(network, environment).empty()) {
    return "NCCL_IB_HCA=" + value_of(environment, "NCCL_IB_HCA") + " selects none of the devices; unset it";
  }
  return {};
}

}  // namespace

std::optional<std::string> network_trouble(const FastNetwork& network, const Environment& environment) {
  const std::vector<std::string> active = usable(network, {});
  if (active.empty()) return std::nullopt;
  const std::string why = obstacle(network, environment);
  if (why.empty()) return std::nullopt;
  return "InfiniBand (" + base::join(active, ", ") +
         "), but NCCL will use sockets to other hosts, several times slower: " + why;
}

std::optional<std::string> unused_network(const FastNetwork& network, const Environment& environment, int open) {
  const std::vector<std::string> names = usable(network, environment);
  const std::string plugin = value_of(environment, "NCCL_NET_PLUGIN");
  const std::string net = value_of(environment, "NCCL_NET");
  const bool own = (plugin.empty() || plugin == "none") && (net.empty() || equal_in_any_case(net, "IB"));
  if (names.empty() || !own || open != 0 || !obstacle(network, environment).empty()) return std::nullopt;
  return "InfiniBand (" + base::join(names, ", ") +
         "), but NCCL has opened none of the devices and uses sockets to other hosts, several times slower. Check that "
         "/dev/infiniband exists (pass it into containers); NCCL_DEBUG=INFO logs more";
}

std::string network_text(const FastNetwork& network, const Environment& environment) {
  const std::vector<std::string> names = usable(network, environment);
  if (names.empty() || !obstacle(network, environment).empty()) return "sockets";
  return "InfiniBand " + base::join(names, ", ");
}

FastNetwork find_network(const std::filesystem::path& folder) {
  FastNetwork network;
  std::error_code error;
  for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    FastDevice device{at->path().filename().string(), false};
    std::error_code no_ports;
    for (std::filesystem::directory_iterator port(at->path() / "ports", no_ports), last; !no_ports && port != last;
         port.increment(no_ports)) {
      std::ifstream file(port->path() / "state");  // "4: ACTIVE"
      std::string state;
      std::getline(file, state);
      device.active = device.active || state.find("ACTIVE") != std::string::npos;
    }
    network.devices.push_back(device);
  }
  std::sort(network.devices.begin(), network.devices.end(),
            [](const FastDevice& a, const FastDevice& b) { return a.name < b.name; });
  void* verbs = network.devices.empty() ? nullptr : dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_LOCAL);
  network.verbs = verbs != nullptr || network.devices.empty();
  if (verbs != nullptr) dlclose(verbs);
  return network;
}

int open_devices(const std::filesystem::path& descriptors) {
  int count = 0;
  std::error_code error;
  for (std::filesystem::directory_iterator at(descriptors, error), end; !error && at != end; at.increment(error)) {
    std::error_code gone;  // the iterator's own
    const auto target = std::filesystem::read_symlink(at->path(), gone);
    count += !gone && target.string().starts_with("/dev/infiniband/uverbs") ? 1 : 0;
  }
  return count;
}

}  // namespace kolo::nccl
