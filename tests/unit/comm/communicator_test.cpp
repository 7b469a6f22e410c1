// The blocking forms, against a scripted communicator.
#include <gtest/gtest.h>

#include "comm/fake_communicator.h"
#include "kolo/error.h"

namespace kolo::comm {
namespace {

using namespace std::chrono_literals;

TEST(Drive, AdvancesUntilComplete) {
  FakeScript script;
  script.advances = 5;
  int reduced = 0;
  script.allreduce = [&reduced](const AllreduceOptions& options) { reduced += static_cast<int>(options.count); };
  FakeCommunicator communicator(script);
  AllreduceOptions options;
  options.count = 7;
  communicator.allreduce(options, 60s);
  EXPECT_EQ(reduced, 7);
  communicator.barrier(60s);
  EXPECT_EQ(communicator.calls(), (std::vector<std::string>{"allreduce 7", "barrier"}));
}

TEST(Drive, TimeoutNamesOperationAndMissingRanks) {
  FakeScript script;
  script.size = 4;
  script.never_completes = 0;
  script.waiting_for = {1, 3};
  FakeCommunicator communicator(script);
  try {
    communicator.broadcast({}, 20ms);
    FAIL() << "no TimeoutError";
  } catch (const TimeoutError& error) {
    EXPECT_EQ(error.missing(), (std::vector<Rank>{1, 3}));
    EXPECT_NE(std::string(error.what()).find("broadcast"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("ranks 1, 3"), std::string::npos);
  }
}

TEST(Drive, ErrorsComeOut) {
  FakeScript script;
  script.fail_advance = 1;
  script.error = [] { throw PeerLostError(1, "rank 1 has died"); };
  FakeCommunicator communicator(script);
  communicator.barrier(60s);
  EXPECT_THROW(communicator.barrier(60s), PeerLostError);
  communicator.barrier(60s);
}

}  // namespace
}  // namespace kolo::comm
