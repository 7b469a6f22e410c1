#include "cluster/monitor_address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <memory>
#include <sstream>
#include <string_view>

#include "base/unique_fd.h"
#include "cluster/socket_address.h"

namespace kolo::cluster {
namespace {

// The bytes of an address, most significant first.
std::optional<std::vector<unsigned char>> bytes_of(const std::string& address) {
  std::array<unsigned char, 16> bytes{};
  if (inet_pton(AF_INET, address.c_str(), bytes.data()) == 1) return std::vector(bytes.begin(), bytes.begin() + 4);
  if (inet_pton(AF_INET6, address.c_str(), bytes.data()) == 1) return std::vector(bytes.begin(), bytes.end());
  return std::nullopt;
}

bool in_one_network(const std::string& a, const std::string& b, int prefix) {
  const auto left = bytes_of(a);
  const auto right = bytes_of(b);
  if (!left || !right || left->size() != right->size()) return false;
  for (std::size_t i = 0; i < left->size(); ++i) {
    const int bits = std::clamp(prefix - static_cast<int>(8 * i), 0, 8);
    const auto mask = static_cast<unsigned char>(0xff00U >> bits);
    if ((((*left)[i] ^ (*right)[i]) & mask) != 0) return false;
  }
  return true;
}

std::optional<int> parse_prefix(std::string_view text) {
  int bits = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), bits);
  if (problem != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return bits;
}

int prefix_of(const sockaddr& mask) {
  const auto* bytes = mask.sa_family == AF_INET
                          ? reinterpret_cast<const unsigned char*>(&reinterpret_cast<const sockaddr_in&>(mask).sin_addr)
                          : reinterpret_cast<const sockaddr_in6&>(mask).sin6_addr.s6_addr;
  int bits = 0;
  for (int i = 0; i < (mask.sa_family == AF_INET ? 4 : 16); ++i) bits += std::popcount(bytes[i]);
  return bits;
}

bool of_use(const ifaddrs& entry) {
  if (entry.ifa_addr == nullptr || entry.ifa_netmask == nullptr) return false;
  if ((entry.ifa_flags & IFF_UP) == 0 || (entry.ifa_flags & IFF_LOOPBACK) != 0) return false;
  const int family = entry.ifa_addr->sa_family;
  if (family == AF_INET) return true;
  return family == AF_INET6 &&
         !IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6*>(entry.ifa_addr)->sin6_addr);
}

bool same_network(const InterfaceAddress& a, const InterfaceAddress& b) {
  return a.prefix == b.prefix && in_one_network(a.address, b.address, a.prefix);
}

}  // namespace

std::optional<SocketAddress> socket_address(const std::string& address, std::uint16_t port) {
  SocketAddress result;
  auto& v4 = reinterpret_cast<sockaddr_in&>(result.storage);
  if (inet_pton(AF_INET, address.c_str(), &v4.sin_addr) == 1) {
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    result.length = sizeof(sockaddr_in);
    return result;
  }
  auto& v6 = reinterpret_cast<sockaddr_in6&>(result.storage);
  if (inet_pton(AF_INET6, address.c_str(), &v6.sin6_addr) == 1) {
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(port);
    result.length = sizeof(sockaddr_in6);
    return result;
  }
  return std::nullopt;
}

std::string address_text(const sockaddr& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const void* bytes = nullptr;
  if (address.sa_family == AF_INET) bytes = &reinterpret_cast<const sockaddr_in&>(address).sin_addr;
  if (address.sa_family == AF_INET6) bytes = &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
  if (bytes == nullptr || inet_ntop(address.sa_family, bytes, text.data(), text.size()) == nullptr) return {};
  return text.data();
}

std::vector<InterfaceAddress> interface_addresses() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, freeifaddrs);
  std::vector<InterfaceAddress> found;
  for (const int family : {AF_INET, AF_INET6}) {
    for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
      if (!of_use(*entry) || entry->ifa_addr->sa_family != family) continue;
      found.push_back({entry->ifa_name, address_text(*entry->ifa_addr), prefix_of(*entry->ifa_netmask)});
    }
  }
  return found;
}

bool meant_by(const std::string& setting, const InterfaceAddress& address) {
  if (setting.empty() || setting == address.interface) return true;
  const auto slash = setting.find('/');
  if (slash == std::string::npos) return false;
  const auto prefix = parse_prefix(std::string_view(setting).substr(slash + 1));
  return prefix && in_one_network(setting.substr(0, slash), address.address, *prefix);
}

std::optional<std::string> common_address(const std::vector<InterfaceAddress>& mine,
                                          const std::vector<std::vector<InterfaceAddress>>& others) {
  for (const auto& address : mine) {
    const bool common = std::ranges::all_of(others, [&](const auto& other) {
      return std::ranges::any_of(other, [&](const InterfaceAddress& theirs) {
        return same_network(address, theirs) && address.address != theirs.address;
      });
    });
    if (common) return address.address;
  }
  return std::nullopt;
}

// A connected datagram socket sends nothing, but has been given a route.
std::optional<std::string> address_towards(const std::string& peer) {
  const auto there = socket_address(peer, 9);
  if (!there) return std::nullopt;
  const base::UniqueFd socket(::socket(there->family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket || connect(socket.get(), there->get(), there->length) != 0) return std::nullopt;
  SocketAddress here;
  here.length = sizeof here.storage;
  if (getsockname(socket.get(), reinterpret_cast<sockaddr*>(&here.storage), &here.length) != 0) return std::nullopt;
  return address_text(*here.get());
}

std::string print(const std::vector<InterfaceAddress>& addresses) {
  std::string text;
  for (const auto& [interface, address, prefix] : addresses) {
    text += (text.empty() ? "" : ",") + address + '/' + std::to_string(prefix) + '@' + interface;
  }
  return text.empty() ? "-" : text;
}

std::vector<InterfaceAddress> parse_addresses(const std::string& text) {
  std::vector<InterfaceAddress> addresses;
  std::istringstream list(text);
  for (std::string entry; std::getline(list, entry, ',');) {
    const auto slash = entry.find('/');
    const auto at = entry.find('@');
    if (slash == std::string::npos || at == std::string::npos || at < slash) continue;
    const auto prefix = parse_prefix(std::string_view(entry).substr(slash + 1, at - slash - 1));
    if (prefix) addresses.push_back({entry.substr(at + 1), entry.substr(0, slash), *prefix});
  }
  return addresses;
}

}  // namespace kolo::cluster
