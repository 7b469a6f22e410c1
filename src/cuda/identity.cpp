#include "cuda/identity.h"

#include <memory>

namespace kolo::cuda {
namespace {

// By its address.
std::optional<int> find_device(const Runtime& runtime, const std::string& address) {
  int device = 0;
  if (runtime.api().device_at(&device, address.c_str()) == kSuccess) return device;
  runtime.api().take_last_error();
  return std::nullopt;
}

bool has(const Runtime& runtime, PeerAttribute attribute, int from, int to) {
  int value = 0;
  runtime.check(runtime.api().peer_attribute(&value, attribute, from, to), "cudaDeviceGetP2PAttribute");
  return value != 0;
}

std::string digits_of(const char (&uuid)[16]) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const char each : uuid) {
    const auto byte = static_cast<unsigned char>(each);
    text += {kDigits[byte / 16], kDigits[byte % 16]};
  }
  return text.find_first_not_of('0') == std::string::npos ? "" : text;
}

}  // namespace

Identity identity_of(const Runtime& runtime, int device) {
  const auto properties = std::make_unique<DeviceProperties>();
  runtime.check(runtime.api().device_properties(properties.get(), device), "cudaGetDeviceProperties");
  char address[64] = "";
  runtime.check(runtime.api().pci_bus_id(address, sizeof address, device), "cudaDeviceGetPCIBusId");
  return {properties->name, properties->memory, address, digits_of(properties->uuid)};
}

std::optional<Link> link_between(const Runtime& runtime, const std::string& from, const std::string& to) {
  const auto first = find_device(runtime, from);
  const auto second = find_device(runtime, to);
  if (!first.has_value() || !second.has_value() || *first == *second) return std::nullopt;
  if (!has(runtime, PeerAttribute::access, *first, *second)) return Link::none;
  return has(runtime, PeerAttribute::native_atomics, *first, *second) ? Link::peer_access_with_atomics
                                                                      : Link::peer_access;
}

}  // namespace kolo::cuda
