#include "runtime/device_agreement.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/fields.h"
#include "base/strings.h"
#include "kolo/error.h"
#include "runtime/config_values.h"

namespace kolo::runtime {
namespace {

constexpr std::size_t kFields = 10;

std::string name_of(DeviceReduction reduction) {
  return std::string(kDeviceReductions[static_cast<std::size_t>(reduction)]);
}

std::string named(std::size_t rank, const DeviceFacts& facts) { return base::rank_text(rank, facts.host); }

void check_devices(const std::vector<DeviceFacts>& ranks) {
  const std::string text = base::troubles_of(ranks);
  if (!text.empty()) {
    throw UsageError("gradients on devices need a device on every rank: " + text +
                     ". Run on hosts with a device for each rank, or on all ranks without devices");
  }
}

void check_settings(const std::vector<DeviceFacts>& ranks) {
  for (std::size_t r = 1; r < ranks.size(); ++r) {
    if (ranks[r].reduction == ranks[0].reduction) continue;
    throw MismatchError("KOLO_DEVICE_REDUCTION is " + name_of(ranks[0].reduction) + " on " + named(0, ranks[0]) +
                        " and " + name_of(ranks[r].reduction) + " on " + named(r, ranks[r]) +
                        ". Set the same value on all ranks");
  }
}

// Containers of one machine may look like hosts of their own, and hosts may have one name: so by the device's UUID.
std::string unique_name_of(const DeviceFacts& facts) {
  return facts.uuid.empty() ? facts.device + " of host " + std::to_string(facts.host_number) : facts.uuid;
}

void check_sharing(const std::vector<DeviceFacts>& ranks) {
  std::map<std::string, std::size_t> taken;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const auto [other, alone] = taken.try_emplace(unique_name_of(ranks[r]), r);
    if (alone || (ranks[r].shares && ranks[other->second].shares)) continue;
    throw UsageError(
        "ranks " + std::to_string(other->second) + " and " + std::to_string(r) + " are both on device " +
        ranks[r].device + " of " + ranks[r].host +
        ". Start at most one rank for each device of a host. For tests, KOLO_SHARED_DEVICE=on allows more, "
        "very slowly");
  }
}

// "no NCCL on ranks 1, 3 (host b): ...; ..."; empty: all ranks have one. Ranks with one reason are named together.
std::string missing_nccl(const std::vector<DeviceFacts>& ranks) {
  std::map<std::string, std::vector<Rank>> missing;  // by reason
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    if (!ranks[r].no_nccl.empty()) missing[ranks[r].no_nccl].push_back(static_cast<Rank>(r));
  }
  std::string text;
  for (const auto& [reason, without] : missing) {
    const std::string& host = ranks[static_cast<std::size_t>(without.front())].host;
    const bool one_host =
        std::ranges::all_of(without, [&](Rank rank) { return ranks[static_cast<std::size_t>(rank)].host == host; });
    text += (text.empty() ? "no NCCL on " : "; on ") + base::ranks_text(without) + " (" + host +
            (one_host ? "" : " and others") + "): " + reason;
  }
  return text;
}

}  // namespace

std::string encode(const DeviceFacts& facts) {
  return base::join_fields({facts.trouble, facts.host, facts.device, facts.shares ? "shares" : "alone",
                            name_of(facts.reduction), facts.no_nccl, facts.name, std::to_string(facts.memory),
                            std::to_string(facts.host_number), facts.uuid});
}

DeviceFacts decode(const std::string& line) {
  const auto fields = base::split_fields(line);
  const auto reduction =
      fields.size() == kFields ? std::ranges::find(kDeviceReductions, fields[4]) : kDeviceReductions.end();
  const auto memory = fields.size() == kFields ? parse_integer(fields[7]) : std::nullopt;
  const auto host_number = fields.size() == kFields ? parse_integer(fields[8]) : std::nullopt;
  if (reduction == kDeviceReductions.end() || !memory.has_value() || !host_number.has_value()) {
    throw BackendError("malformed description of a device: '" + line + "'. Do all ranks run the same version of kolo?");
  }
  DeviceFacts facts;
  facts.trouble = fields[0];
  facts.host = fields[1];
  facts.device = fields[2];
  facts.shares = fields[3] == "shares";
  facts.reduction = static_cast<DeviceReduction>(reduction - kDeviceReductions.begin());
  facts.no_nccl = fields[5];
  facts.name = fields[6];
  facts.memory = static_cast<std::size_t>(*memory);
  facts.host_number = static_cast<int>(*host_number);
  facts.uuid = fields[9];
  return facts;
}

DeviceAgreement agree_on_devices(const std::vector<DeviceFacts>& ranks) {
  check_devices(ranks);
  check_settings(ranks);
  check_sharing(ranks);
  const DeviceReduction asked = ranks.front().reduction;
  if (asked == DeviceReduction::host) return {};
  const std::string missing = missing_nccl(ranks);
  if (missing.empty()) return {.by_nccl = true, .warning = {}};
  if (asked != DeviceReduction::automatic) {
    throw UsageError("KOLO_DEVICE_REDUCTION=" + name_of(asked) + ", but there is " + missing +
                     ". Install NCCL there, or set KOLO_DEVICE_REDUCTION=host or auto to reduce on the CPUs");
  }
  return {.by_nccl = false,
          .warning = missing +
                     ". All ranks reduce gradients of devices on the CPUs, which is slower. KOLO_DEVICE_REDUCTION=host "
                     "silences this warning, nccl makes it an error"};
}

}  // namespace kolo::runtime
