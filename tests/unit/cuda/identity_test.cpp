#include "cuda/identity.h"

#include <gtest/gtest.h>

#include "cuda/stream.h"
#include "kolo/error.h"
#include "support/device/simulated_device.h"

namespace kolo::cuda {
namespace {

Runtime runtime_of(const test::SimulatedDevice& device) { return Runtime(device.api()); }

TEST(Identity, IsNameMemoryAndAddress) {
  const test::SimulatedDevice device({.devices = 2, .memory = std::size_t{3} << 30});
  const Identity identity = identity_of(runtime_of(device), 1);
  EXPECT_EQ(identity.name, "Simulated device");
  EXPECT_EQ(identity.memory, std::size_t{3} << 30);
  EXPECT_EQ(identity.address, "0000:02:00.0");
  EXPECT_EQ(identity.uuid, "");
  EXPECT_THROW((void)identity_of(runtime_of(device), 2), BackendError);
}

TEST(Identity, HasAUuidWhereTheRuntimeDoes) {
  const test::SimulatedDevice device({.devices = 2, .uuids = true});
  EXPECT_EQ(identity_of(runtime_of(device), 1).uuid, "00000000000000000000000000000002");
}

TEST(Link, IsWhatTheRuntimeSaysOfThePair) {
  const struct {
    bool access;
    bool atomics;
    Link link;
  } cases[] = {{false, false, Link::none},
               {false, true, Link::none},
               {true, false, Link::peer_access},
               {true, true, Link::peer_access_with_atomics}};
  for (const auto& each : cases) {
    const test::SimulatedDevice device({.devices = 2, .peer_access = each.access, .native_atomics = each.atomics});
    EXPECT_EQ(link_between(runtime_of(device), "0000:01:00.0", "0000:02:00.0"), each.link);
  }
}

// A process that was given one device knows nothing of the others.
TEST(Link, IsNotKnownOfADeviceThatIsNotSeen) {
  const test::SimulatedDevice device;
  const Runtime runtime = runtime_of(device);
  EXPECT_EQ(link_between(runtime, "0000:01:00.0", "0000:02:00.0"), std::nullopt);
  EXPECT_EQ(link_between(runtime, "0000:01:00.0", "0000:01:00.0"), std::nullopt);
  EXPECT_EQ(runtime.api().take_last_error(), kSuccess) << "left for somebody else";
}

TEST(StreamPriority, IsOneOfTheTwoEndsOfTheRange) {
  const test::SimulatedDevice device;
  const auto runtime = std::make_shared<const Runtime>(device.api());
  const OwnStream high(runtime, 0, Priority::high);
  const OwnStream normal(runtime, 0, Priority::normal);
  int least = 0;
  int greatest = 0;
  ASSERT_EQ(runtime->api().stream_priorities(&least, &greatest), kSuccess);
  EXPECT_EQ(device.priority(high.view().handle), greatest);
  EXPECT_EQ(device.priority(normal.view().handle), least);
  EXPECT_NE(least, greatest);
}

}  // namespace
}  // namespace kolo::cuda
