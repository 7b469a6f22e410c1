#include "cluster/host_address.h"

#include <gmock/gmock.h>

#include "kolo/error.h"

namespace kolo::cluster {
namespace {

const InterfaceAddress kFirst{"eth0", "10.0.0.1", 24};
const InterfaceAddress kSecond{"eth0", "10.0.0.2", 24};

TEST(HostAddress, RanksOfOneHostMeetAtItsLoopback) { EXPECT_EQ(own_address(1, {{0, 0}, {{}, {}}}), "127.0.0.1"); }

TEST(HostAddress, RanksOfSeveralHostsMeetInTheNetworkThatTheyShare) {
  const HostAddresses world{{0, 0, 1}, {{kFirst}, {kFirst}, {kSecond}}};
  EXPECT_EQ(own_address(0, world), "10.0.0.1");
  EXPECT_EQ(own_address(1, world), "10.0.0.1");
  EXPECT_EQ(own_address(2, world), "10.0.0.2");
}

TEST(HostAddress, WithoutAnAddressThereIsNone) { EXPECT_EQ(own_address(0, {{0, 1}, {{}, {kSecond}}}), ""); }

TEST(HostAddress, AListenerIsToldInWords) {
  base::UniqueFd listener;
  const auto told = open_listener("127.0.0.1", listener);
  EXPECT_TRUE(listener);
  EXPECT_EQ(address_text(*parse_listener(0, told).get()), "127.0.0.1");
}

std::string refusal(const std::string& text) {
  try {
    static_cast<void>(parse_listener(3, text));
  } catch (const BackendError& error) {
    return error.what();
  }
  return "none";
}

TEST(HostAddress, WhoCannotListenIsNamedOnEveryRank) {
  base::UniqueFd listener;
  EXPECT_EQ(refusal(open_listener("", listener)),
            "rank 3 cannot be reached: no interface that is up has an address that KOLO_INTERFACE allows");
  EXPECT_THAT(refusal(open_listener("203.0.113.1", listener)), testing::StartsWith("rank 3 cannot be reached: bind"));
  EXPECT_EQ(refusal("nonsense"), "rank 3 cannot be reached: malformed address 'nonsense'");
  EXPECT_FALSE(listener);
}

}  // namespace
}  // namespace kolo::cluster
