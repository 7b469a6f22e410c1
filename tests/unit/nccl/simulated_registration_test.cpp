// That the simulated NCCL finds what is done wrong with registered memory.
#include <gtest/gtest.h>

#include "cuda/stream.h"
#include "support/device/simulated_nccl.h"

namespace kolo::test {
namespace {

using nccl::Comm;
using nccl::Result;

// Two ranks with a device and memory of NCCL's each, in the test's own thread.
class SimulatedRegistration : public testing::Test {
 protected:
  SimulatedRegistration() {
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
  ~SimulatedRegistration() override {
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
  // Rank 0's memory, registered and in use by a broadcast.
  void register_and_use() {
    on_device(0);
    EXPECT_EQ(api_.register_buffer(comms_[0], memory_[0], 64, &handle_), Result::success);
    EXPECT_EQ(api_.broadcast(memory_[0], memory_[0], 64, nccl::Type::u8, 0, comms_[0], streams_[0]->view().handle),
              Result::in_progress);
    settle(comms_[0]);
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
  void* handle_ = nullptr;  // of the registration
  std::vector<std::unique_ptr<cuda::OwnStream>> streams_;
};

TEST_F(SimulatedRegistration, FindsOneThatEndsUnderAnOperation) {
  register_and_use();
  EXPECT_EQ(api_.deregister_buffer(comms_[0], handle_), Result::success);
  expect_violation("still uses the memory");
}

TEST_F(SimulatedRegistration, FindsOneThatIsLeftWhenTheCommunicatorIsDestroyed) {
  EXPECT_EQ(api_.register_buffer(comms_[0], memory_[0], 64, &handle_), Result::success);
  for (const Comm comm : comms_) (void)api_.finalize(comm);
  for (Comm& comm : comms_) {
    EXPECT_EQ(settle(comm), Result::success);
    EXPECT_EQ(api_.destroy(std::exchange(comm, nullptr)), Result::success);
  }
  expect_violation("destroy: buffers are still registered");
}

TEST_F(SimulatedRegistration, FindsMemoryThatIsReleasedBefore) {
  EXPECT_EQ(api_.register_buffer(comms_[0], memory_[0], 64, &handle_), Result::success);
  on_device(0);
  EXPECT_EQ(api_.release(std::exchange(memory_[0], nullptr)), Result::success);
  expect_violation("release of memory that is registered");
}

TEST_F(SimulatedRegistration, EndsWithAnAbort) {
  register_and_use();
  EXPECT_EQ(api_.abort_comm(std::exchange(comms_[0], nullptr)), Result::success);
  device_.drain();
  EXPECT_EQ(device_.queued(), 0U);
  on_device(0);
  EXPECT_EQ(api_.release(std::exchange(memory_[0], nullptr)), Result::success);
}

}  // namespace
}  // namespace kolo::test
