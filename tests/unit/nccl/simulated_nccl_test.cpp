// The simulated NCCL itself, through its table: what it computes, and that it finds what it says it finds.
#include <gtest/gtest.h>

#include <vector>

#include "cuda/memory.h"
#include "cuda/stream.h"
#include "support/device/simulated_nccl.h"

namespace kolo::test {
namespace {

using nccl::Comm;
using nccl::CommConfig;
using nccl::Op;
using nccl::Result;
using nccl::Type;

// Two ranks with a device each, both in the test's own thread: nothing of the table blocks.
class SimulatedNcclTest : public testing::Test {
 protected:
  SimulatedNcclTest()
      : nccl_(device_), api_(nccl_.api()), runtime_(std::make_shared<const cuda::Runtime>(device_.api())) {
    make_pair(comms_);
    for (int rank = 0; rank < 2; ++rank) {
      streams_.push_back(std::make_unique<cuda::OwnStream>(runtime_, rank));
      memory_.emplace_back(runtime_, rank, 64);
      const std::vector<std::int32_t> values(16, rank + 1);
      device_.write(memory_.back().data(), values.data(), 64);
    }
  }
  ~SimulatedNcclTest() override {
    device_.drain();
    for (const Comm comm : comms_) {
      if (comm != nullptr) (void)api_.abort_comm(comm);
    }
    device_.drain();
    for (const auto& stream : streams_) (void)device_.api().stream_synchronize(stream->view().handle);
  }

  void on_device(int rank) { ASSERT_EQ(device_.api().set_device(rank), cuda::kSuccess); }
  void make_pair(Comm (&made)[2]) {
    nccl::UniqueId id{};
    ASSERT_EQ(api_.unique_id(&id), Result::success);
    CommConfig config;
    config.blocking = 0;
    for (int rank = 0; rank < 2; ++rank) {
      on_device(rank);
      ASSERT_EQ(api_.init(&made[rank], 2, id, rank, &config), Result::in_progress);
    }
    for (const Comm comm : made) settle(comm);
  }
  Result settle(Comm comm) {
    Result error = Result::in_progress;
    for (int i = 0; i < 100 && error == Result::in_progress; ++i) (void)api_.async_error(comm, &error);
    return error;
  }
  [[nodiscard]] cuda::StreamHandle stream(int rank) const {
    return streams_[static_cast<std::size_t>(rank)]->view().handle;
  }
  [[nodiscard]] std::byte* memory(int rank) const { return memory_[static_cast<std::size_t>(rank)].data(); }
  Result all_reduce(int rank, std::size_t count = 16, Type type = Type::i32) {
    on_device(rank);
    return api_.all_reduce(memory(rank), memory(rank), count, type, Op::sum, comms_[rank], stream(rank));
  }
  [[nodiscard]] std::vector<std::int32_t> values(int rank) const {
    std::vector<std::int32_t> found(16);
    device_.peek(found.data(), memory(rank), 64);
    return found;
  }
  void expect_violation(Fault fault, const std::string& word) {
    bool found = false;
    std::string all;
    for (const Violation& each : device_.take_violations()) {
      found = found || (each.fault == fault && each.text.find(word) != std::string::npos);
      all += each.text + "\n";
    }
    EXPECT_TRUE(found) << "expected " << fault_name(fault) << " with " << word << " in:\n" << all;
  }

  SimulatedDevice device_{{.devices = 2}};
  SimulatedNccl nccl_;
  nccl::NcclApi api_;
  cuda::RuntimePtr runtime_;
  Comm comms_[2]{};
  std::vector<std::unique_ptr<cuda::OwnStream>> streams_;
  std::vector<cuda::DeviceBuffer> memory_;
};

TEST_F(SimulatedNcclTest, ReducesWhenAllHaveCome) {
  EXPECT_EQ(all_reduce(0), Result::in_progress);
  settle(comms_[0]);
  for (int i = 0; i < 20; ++i) device_.run_some();
  EXPECT_EQ(values(0)[0], 1);
  EXPECT_EQ(all_reduce(1), Result::in_progress);
  settle(comms_[1]);
  EXPECT_TRUE(device_.drain());
  EXPECT_EQ(values(0), std::vector<std::int32_t>(16, 3));
  EXPECT_EQ(values(1), std::vector<std::int32_t>(16, 3));
}

TEST_F(SimulatedNcclTest, FindsDifferentCountsAndTypes) {
  for (const auto& [count, type] : {std::pair{std::size_t{8}, Type::i32}, std::pair{std::size_t{16}, Type::f32}}) {
    (void)all_reduce(0);
    settle(comms_[0]);
    (void)all_reduce(1, count, type);
    EXPECT_EQ(settle(comms_[1]), Result::internal_error);
    expect_violation(Fault::bad_call, "ranks differ");
    for (Comm& comm : comms_) EXPECT_EQ(api_.abort_comm(comm), Result::success);
    make_pair(comms_);
  }
}

TEST_F(SimulatedNcclTest, FindsTwoStreamsWithoutOrder) {
  on_device(0);
  cuda::OwnStream other(runtime_, 0);
  cuda::DeviceBuffer more(runtime_, 0, 64);
  (void)all_reduce(0);
  settle(comms_[0]);
  (void)api_.all_reduce(more.data(), more.data(), 16, Type::i32, Op::sum, comms_[0], other.view().handle);
  settle(comms_[0]);
  for (int i = 0; i < 2; ++i) {
    (void)all_reduce(1);
    settle(comms_[1]);
  }
  device_.drain();
  (void)device_.api().stream_synchronize(other.view().handle);
  expect_violation(Fault::race, "communicator");
}

TEST_F(SimulatedNcclTest, FindsCallsBeforeItIsReady) {
  EXPECT_EQ(all_reduce(0), Result::in_progress);
  bool found = false;
  for (int i = 0; i < 20 && !found; ++i) {  // sometimes it is ready at once
    (void)all_reduce(0);
    found = !device_.violations().empty();
  }
  expect_violation(Fault::bad_call, "still in progress");
  for (Comm& comm : comms_) (void)api_.abort_comm(comm), comm = nullptr;
}

TEST_F(SimulatedNcclTest, FindsUseAfterTheEnd) {
  EXPECT_EQ(api_.abort_comm(comms_[0]), Result::success);
  EXPECT_EQ(all_reduce(0), Result::invalid_argument);
  comms_[0] = nullptr;
  expect_violation(Fault::bad_call, "has ended before");
}

TEST_F(SimulatedNcclTest, DestroysOnlyWhatIsFinalized) {
  EXPECT_EQ(api_.destroy(comms_[0]), Result::success);
  comms_[0] = nullptr;
  expect_violation(Fault::bad_call, "before it was finalized");
}

TEST_F(SimulatedNcclTest, FindsTwoRanksOnOneDevice) {
  nccl::UniqueId id{};
  (void)api_.unique_id(&id);
  CommConfig config;
  config.blocking = 0;
  on_device(1);
  Comm made[2]{};
  (void)api_.init(&made[0], 2, id, 0, &config);
  EXPECT_EQ(api_.init(&made[1], 2, id, 1, &config), Result::invalid_usage);
  (void)api_.abort_comm(made[0]);
  expect_violation(Fault::bad_call, "two ranks on device 1");
}

// What has arrived but not run when its rank aborts is never carried out for the others.
TEST_F(SimulatedNcclTest, AbortLeavesThePeerWaiting) {
  (void)all_reduce(0);
  settle(comms_[0]);
  for (int i = 0; i < 20; ++i) device_.run_some();
  EXPECT_EQ(api_.abort_comm(comms_[0]), Result::success);
  comms_[0] = nullptr;
  (void)all_reduce(1);
  settle(comms_[1]);
  for (int i = 0; i < 20; ++i) device_.run_some();
  EXPECT_EQ(device_.queued(), 1U);
  EXPECT_EQ(values(1)[0], 2);
  EXPECT_EQ(api_.abort_comm(comms_[1]), Result::success);
  comms_[1] = nullptr;
  EXPECT_TRUE(device_.drain());
  EXPECT_EQ(values(1)[0], 2);
}

}  // namespace
}  // namespace kolo::test
