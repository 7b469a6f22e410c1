#pragma once
// What ranks tell each other of their devices before lanes are made, and what follows from it for all of them alike.
#include <string>
#include <vector>

#include "kolo/config.h"

namespace kolo::runtime {

struct DeviceFacts {
  std::string trouble;  // why this rank has no device; empty: it has one
  std::string host;
  int host_number = 0;     // Placement::cross_rank: hosts of one name are told apart
  std::string device;      // its PCI address
  std::string uuid;        // of that device, its digits; empty: not known
  std::string name;        // and what it is
  std::size_t memory = 0;  // bytes
  bool shares = false;
  DeviceReduction reduction = DeviceReduction::automatic;
  std::string no_nccl;  // why this rank has none; empty: it has one, or wants none
};

// One line of text.
[[nodiscard]] std::string encode(const DeviceFacts& facts);
[[nodiscard]] DeviceFacts decode(const std::string& line);  // BackendError for what encode() does not make

struct DeviceAgreement {
  bool by_nccl = false;  // else by the hosts
  std::string warning;   // of what nobody has asked for; empty: nothing
};

// Throws the same error on every rank: UsageError where a rank has no device, where two are on one, and where NCCL is
// missing that was asked for; MismatchError where ranks were not asked for the same.
[[nodiscard]] DeviceAgreement agree_on_devices(const std::vector<DeviceFacts>& ranks);

}  // namespace kolo::runtime
