#include <gtest/gtest.h>

#include "comm/private_buffer.h"
#include "comm/select.h"
#include "kolo/error.h"

namespace kolo::comm {
namespace {

AllreduceOptions of_bytes(std::size_t bytes, RegisteredBuffer* registered = nullptr) {
  AllreduceOptions options;
  options.count = bytes / sizeof(float);
  options.registered = registered;
  return options;
}

TEST(Select, FollowsMemoryAndSize) {
  PrivateBuffer buffer(64);
  const Surroundings host{2, true};
  const Surroundings big_host{8, true};
  const Surroundings network{2, false};
  EXPECT_EQ(select_way(of_bytes(1 << 20, &buffer), host), Way::in_place);
  EXPECT_EQ(select_way(of_bytes(64, &buffer), host), Way::lanes);
  EXPECT_EQ(select_way(of_bytes(1 << 20), host), Way::lanes);
  EXPECT_EQ(select_way(of_bytes(1 << 20), big_host), Way::sliced_lanes);
  EXPECT_EQ(select_way(of_bytes(64), big_host), Way::lanes);
  EXPECT_EQ(select_way(of_bytes(1 << 20, &buffer), network), Way::ring);
  EXPECT_EQ(select_way(of_bytes(64), {1, false}), Way::alone);
}

TEST(Select, DoesWhatIsAsked) {
  AllreduceOptions options = of_bytes(1 << 20);
  options.algorithm = Algorithm::ring;
  EXPECT_EQ(select_way(options, {2, true}), Way::ring);
  options.algorithm = Algorithm::direct;
  EXPECT_THROW((void)select_way(options, {2, false}), UsageError);
  options.algorithm = Algorithm::mpi;
  EXPECT_THROW((void)select_way(options, {2, true}), UsageError);
}

TEST(Select, SaysWhy) {
  EXPECT_EQ(select(of_bytes(64), {3, false}).choice.reason, "3 ranks without shared memory: segmented ring");
  EXPECT_EQ(select(of_bytes(64), {3, false}).choice.algorithm, Algorithm::ring);
}

}  // namespace
}  // namespace kolo::comm
