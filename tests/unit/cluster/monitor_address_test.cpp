#include "cluster/monitor_address.h"

#include <gmock/gmock.h>

namespace kolo::cluster {
namespace {

const InterfaceAddress kBridge{"docker0", "172.17.0.1", 16};

TEST(MonitorAddress, IsInANetworkThatAllHostsShare) {
  const std::vector<InterfaceAddress> mine{kBridge, {"eth0", "192.168.1.5", 24}, {"ib0", "10.0.0.5", 16}};
  const std::vector<InterfaceAddress> second{kBridge, {"ens3", "10.0.7.9", 16}, {"eth0", "192.168.2.9", 24}};
  EXPECT_EQ(common_address(mine, {second}), "10.0.0.5");
  const std::vector<InterfaceAddress> third{kBridge, {"eth0", "192.168.1.7", 24}};
  EXPECT_EQ(common_address(mine, {third}), "192.168.1.5");
  EXPECT_EQ(common_address(mine, {second, third}), std::nullopt);
}

TEST(MonitorAddress, SettingsNameAnInterfaceOrANetwork) {
  const InterfaceAddress address{"eth1", "10.77.3.4", 24};
  for (const char* setting : {"", "eth1", "10.77.3.0/24", "10.77.0.0/16", "10.77.3.4/32", "0.0.0.0/0"}) {
    EXPECT_TRUE(meant_by(setting, address)) << setting;
  }
  for (const char* setting : {"eth0", "10.77.4.0/24", "10.77.3.5/32", "10.77.3.4", "10.77.3.0/x", "/", "fd00::/8"}) {
    EXPECT_FALSE(meant_by(setting, address)) << setting;
  }
  EXPECT_TRUE(meant_by("fd00:1::/32", {"eth1", "fd00:1:2::3", 64}));
  EXPECT_FALSE(meant_by("fd00:2::/32", {"eth1", "fd00:1:2::3", 64}));
}

TEST(MonitorAddress, TravelsAsText) {
  const std::vector<InterfaceAddress> addresses{{"eth0.7", "10.0.0.1", 8}, {"eth0", "fd00::1", 64}};
  EXPECT_EQ(parse_addresses(print(addresses)), addresses);
  EXPECT_EQ(print({}), "-");
  EXPECT_TRUE(parse_addresses("-").empty());
  EXPECT_TRUE(parse_addresses("nonsense,1/2,@/").empty());
  EXPECT_TRUE(parse_addresses("10.0.0.1/2x@eth0,10.0.0.1/@eth1,10.0.0.1/x@eth2").empty());
}

TEST(MonitorAddress, OfThisMachineAreNeitherLoopbackNorLinkLocal) {
  for (const auto& address : interface_addresses()) {
    EXPECT_FALSE(address.address.starts_with("127.")) << address.address;
    EXPECT_FALSE(address.address.starts_with("fe80")) << address.address;
    EXPECT_GT(address.prefix, 0) << address.address;
  }
}

}  // namespace
}  // namespace kolo::cluster
