// That the simulated NCCL finds what is done wrong with registered memory.
#include <gtest/gtest.h>

#include "cuda/stream.h"
#include "support/device/simulated_nccl.h"

namespace kolo::test {
namespace {

using nccl::Comm;
using nccl::Result;
using nccl::Window;

// Two ranks with a device and memory of NCCL's each, in the test's own thread.
class SimulatedWindows : public testing::Test {
 protected:
  SimulatedWindows() {
    nccl::UniqueId id{};
    EXPECT_EQ(api_.unique_id(&id), Result::success);
    nccl::CommConfig config;
    config.blocking = 0;
    for (int rank = 0; rank < 2; ++rank) {
      on_device(rank);
      EXPECT_EQ(api_.init(&comms_[rank], 2, id, rank, &config), Result::in_progress);
      EXPECT_EQ(api_.allocate(&memory_[rank], 64), Result::success);
      streams_.push_back(std::make_unique<cuda::OwnStream>(runtime_, rank));
    }
    for (const Comm comm : comms_) settle(comm);
  }
  ~SimulatedWindows() override {
    for (int rank = 0; rank < 2; ++rank) {
      if (comms_[rank] != nullptr) (void)api_.abort_comm(comms_[rank]);
    }
    device_.drain();
    for (int rank = 0; rank < 2; ++rank) {
      on_device(rank);
      if (memory_[rank] != nullptr) (void)api_.release(memory_[rank]);
    }
  }
  void on_device(int rank) { ASSERT_EQ(device_.api().set_device(rank), cuda::kSuccess); }
  Result settle(Comm comm) {
    Result error = Result::in_progress;
    for (int i = 0; i < 100 && error == Result::in_progress; ++i) (void)api_.async_error(comm, &error);
    return error;
  }
  Result ask(int rank, std::size_t bytes) {
    return api_.register_window(comms_[rank], memory_[rank], bytes, &windows_[rank], nccl::kSymmetricWindow);
  }
  void make_both() {
    for (int rank = 0; rank < 2; ++rank) EXPECT_EQ(ask(rank, 64), Result::in_progress);
    for (const Comm comm : comms_) EXPECT_EQ(settle(comm), Result::success);
  }
  void end_both() {
    for (int rank = 0; rank < 2; ++rank)
      EXPECT_EQ(api_.deregister_window(comms_[rank], windows_[rank]), Result::success);
  }
  void expect_violation(const std::string& word) {
    std::string all;
    for (const Violation& each : device_.take_violations()) all += each.text + "\n";
    EXPECT_NE(all.find(word), std::string::npos) << "expected " << word << " in:\n" << all;
  }

  SimulatedDevice device_{{.devices = 2}};
  SimulatedNccl nccl_{device_};
  nccl::NcclApi api_ = nccl_.api();
  cuda::RuntimePtr runtime_ = std::make_shared<const cuda::Runtime>(device_.api());
  Comm comms_[2]{};
  void* memory_[2]{};
  Window windows_[2]{};
  std::vector<std::unique_ptr<cuda::OwnStream>> streams_;
};

TEST_F(SimulatedWindows, AreThereWhenAllHaveAsked) {
  EXPECT_EQ(ask(0, 64), Result::in_progress);
  EXPECT_EQ(settle(comms_[0]), Result::in_progress);
  EXPECT_EQ(windows_[0], nullptr);
  EXPECT_EQ(ask(1, 64), Result::in_progress);
  EXPECT_EQ(settle(comms_[0]), Result::success);
  EXPECT_EQ(settle(comms_[1]), Result::success);
  EXPECT_NE(windows_[0], nullptr);
  end_both();
}

TEST_F(SimulatedWindows, DifferInSizeIsFound) {
  EXPECT_EQ(ask(0, 64), Result::in_progress);
  (void)ask(1, 32);
  expect_violation("ranks differ in window 0");
  EXPECT_EQ(settle(comms_[0]), Result::internal_error);
}

TEST_F(SimulatedWindows, OfOtherMemoryAreFound) {
  std::byte own[64];
  EXPECT_EQ(api_.register_window(comms_[0], own, 64, &windows_[0], nccl::kSymmetricWindow), Result::invalid_argument);
  expect_violation("not ncclMemAlloc's");
}

TEST_F(SimulatedWindows, EndedUnderAnOperationIsFound) {
  make_both();
  on_device(0);
  EXPECT_EQ(api_.broadcast(memory_[0], memory_[0], 64, nccl::Type::u8, 0, comms_[0], streams_[0]->view().handle),
            Result::in_progress);
  settle(comms_[0]);
  end_both();
  expect_violation("still uses the memory");
}

TEST_F(SimulatedWindows, NotEndedBeforeTheCommunicatorAreFound) {
  make_both();
  for (Comm& comm : comms_) EXPECT_EQ(api_.abort_comm(std::exchange(comm, nullptr)), Result::success);
  expect_violation("abort: 1 registrations were not ended");
}

TEST_F(SimulatedWindows, NotEndedBeforeTheEndInOrderAreFound) {
  void* handle = nullptr;
  EXPECT_EQ(api_.register_buffer(comms_[0], memory_[0], 64, &handle), Result::success);
  for (const Comm comm : comms_) (void)api_.finalize(comm);
  for (Comm& comm : comms_) {
    EXPECT_EQ(settle(comm), Result::success);
    EXPECT_EQ(api_.destroy(std::exchange(comm, nullptr)), Result::success);
  }
  expect_violation("destroy: 1 registrations were not ended");
}

TEST_F(SimulatedWindows, MemoryThatGoesBeforeIsFound) {
  make_both();
  on_device(0);
  EXPECT_EQ(api_.release(std::exchange(memory_[0], nullptr)), Result::success);
  expect_violation("release of memory that is registered");
  end_both();
}

// What is in flight on a revoked communicator ends without being carried out; then its windows may go.
TEST_F(SimulatedWindows, AreFreeAfterARevocation) {
  make_both();
  on_device(0);
  EXPECT_EQ(api_.broadcast(memory_[0], memory_[0], 64, nccl::Type::u8, 0, comms_[0], streams_[0]->view().handle),
            Result::in_progress);
  settle(comms_[0]);
  EXPECT_EQ(api_.revoke(comms_[0], 0), Result::in_progress);
  EXPECT_EQ(settle(comms_[0]), Result::success);
  EXPECT_EQ(device_.queued(), 0U);
  end_both();
}

}  // namespace
}  // namespace kolo::test
