#include "runtime/device_agreement.h"

#include <gmock/gmock.h>

#include "kolo/error.h"

namespace kolo::runtime {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// Two ranks on each host, each with its own device.
std::vector<DeviceFacts> facts_of(int ranks, DeviceReduction reduction = DeviceReduction::automatic) {
  std::vector<DeviceFacts> all;
  for (int rank = 0; rank < ranks; ++rank) {
    DeviceFacts facts;
    facts.host = "host" + std::to_string(rank / 2);
    facts.host_number = rank / 2;
    facts.device = "0000:0" + std::to_string(rank % 2) + ":00.0";
    facts.reduction = reduction;
    all.push_back(facts);
  }
  return all;
}

template <class E>
std::string error_of(const std::vector<DeviceFacts>& ranks) {
  try {
    (void)agree_on_devices(ranks);
  } catch (const E& error) {
    return error.what();
  }
  return "no error";
}

TEST(DeviceAgreement, DecodeReturnsEncodedFacts) {
  DeviceFacts facts = facts_of(4)[3];
  facts.trouble = "no\tdevice\nhere";
  facts.shares = true;
  facts.host_number = 7;
  facts.name = "A device";
  facts.memory = std::size_t{80} << 30;
  facts.uuid = "0123456789abcdef";
  facts.reduction = DeviceReduction::host;
  facts.no_nccl = std::string(10'000, 'x');
  const DeviceFacts same = decode(encode(facts));
  EXPECT_EQ(same.trouble, "no device here");
  EXPECT_EQ(same.host, "host1");
  EXPECT_EQ(same.device, "0000:01:00.0");
  EXPECT_TRUE(same.shares);
  EXPECT_EQ(same.host_number, 7);
  EXPECT_EQ(same.uuid, "0123456789abcdef");
  EXPECT_EQ(same.name, "A device");
  EXPECT_EQ(same.memory, std::size_t{80} << 30);
  EXPECT_EQ(same.reduction, DeviceReduction::host);
  EXPECT_EQ(same.no_nccl, facts.no_nccl);
  EXPECT_FALSE(decode(encode(facts_of(1)[0])).shares);
}

TEST(DeviceAgreement, MalformedTextIsRefusedByDecode) {
  EXPECT_THROW((void)decode(""), BackendError);
  EXPECT_THROW((void)decode(encode(facts_of(1)[0]) + "\t"), BackendError);
  EXPECT_THROW((void)decode("\thost\tdevice\talone\tmaybe\t\tname\t0\t0\t"), BackendError);
  EXPECT_THROW((void)decode("\thost\tdevice\talone\tauto\t\tname\tmuch\t0\t"), BackendError);
}

TEST(DeviceAgreement, RanksWithoutDeviceAreNamedInUsageError) {
  auto ranks = facts_of(4, DeviceReduction::host);
  ranks[1].trouble = "no driver";
  ranks[3].trouble = "no such device";
  EXPECT_THAT(error_of<UsageError>(ranks),
              AllOf(HasSubstr("rank 1 (host0): no driver"), HasSubstr("rank 3 (host1): no such device")));
}

TEST(DeviceAgreement, TwoRanksOnOneDeviceAreUsageErrorUnlessBothAllowSharing) {
  for (const auto reduction : {DeviceReduction::automatic, DeviceReduction::host}) {
    auto ranks = facts_of(3, reduction);
    ranks[1].device = ranks[0].device;
    EXPECT_THAT(error_of<UsageError>(ranks), AllOf(HasSubstr("ranks 0 and 1 are both on device 0000:00:00.0 of host0"),
                                                   HasSubstr("KOLO_SHARED_DEVICE=on")));
    ranks[1].shares = true;
    EXPECT_THAT(error_of<UsageError>(ranks), HasSubstr("KOLO_SHARED_DEVICE=on"));
    ranks[0].shares = true;
    EXPECT_NO_THROW((void)agree_on_devices(ranks));
  }
}

TEST(DeviceAgreement, HostsWithEqualNamesHaveDifferentDevices) {
  auto ranks = facts_of(4);
  for (auto& each : ranks) each.host = "node";
  EXPECT_NO_THROW((void)agree_on_devices(ranks));
}

// Containers of one host have different names.
TEST(DeviceAgreement, EqualUuidOnDifferentHostNamesIsOneDevice) {
  auto ranks = facts_of(4);
  for (auto& each : ranks) each.uuid = each.host + each.device;
  EXPECT_NO_THROW((void)agree_on_devices(ranks));
  ranks[2].uuid = ranks[0].uuid;
  EXPECT_THAT(error_of<UsageError>(ranks), HasSubstr("ranks 0 and 2 are both on device 0000:00:00.0 of host1"));
}

TEST(DeviceAgreement, UsesNcclIfAllRanksHaveItUnlessHostIsRequested) {
  EXPECT_TRUE(agree_on_devices(facts_of(3)).by_nccl);
  EXPECT_TRUE(agree_on_devices(facts_of(3, DeviceReduction::nccl)).by_nccl);
  const auto by_hosts = agree_on_devices(facts_of(3, DeviceReduction::host));
  EXPECT_FALSE(by_hosts.by_nccl);
  EXPECT_EQ(by_hosts.warning, "");
}

TEST(DeviceAgreement, RanksWithoutNcclAreNamedByReasonInWarningOrError) {
  auto ranks = facts_of(4);
  ranks[0].no_nccl = ranks[3].no_nccl = "not found";
  ranks[1].no_nccl = "too old";
  const auto agreement = agree_on_devices(ranks);
  EXPECT_FALSE(agreement.by_nccl);
  EXPECT_THAT(agreement.warning, AllOf(HasSubstr("ranks 0, 3 (host0 and others): not found"),
                                       HasSubstr("on rank 1 (host0): too old"), HasSubstr("on the CPUs")));
  for (auto& rank : ranks) rank.reduction = DeviceReduction::nccl;
  EXPECT_THAT(error_of<UsageError>(ranks),
              AllOf(HasSubstr("KOLO_DEVICE_REDUCTION=nccl"), HasSubstr("rank 1 (host0): too old")));
}

TEST(DeviceAgreement, DifferentReductionSettingsAreMismatchError) {
  auto ranks = facts_of(3);
  ranks[2].reduction = DeviceReduction::nccl;
  EXPECT_THAT(error_of<MismatchError>(ranks), AllOf(HasSubstr("KOLO_DEVICE_REDUCTION"), HasSubstr("auto on rank 0"),
                                                    HasSubstr("nccl on rank 2 (host1)")));
}

}  // namespace
}  // namespace kolo::runtime
