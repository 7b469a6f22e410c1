#include "comm/fake_communicator.h"

#include <thread>

#include "comm/private_buffer.h"

namespace kolo::comm {
namespace {

class FakeOperation final : public Operation {
 public:
  FakeOperation(const FakeScript& script, std::size_t number, std::function<void()> at_the_end)
      : script_(script), number_(number), left_(script.advances), at_the_end_(std::move(at_the_end)) {}

  bool advance() override {
    if (left_ == 0) return true;
    if (number_ == script_.fail_advance) script_.error();
    if (number_ == script_.never_completes || --left_ != 0) return false;
    if (at_the_end_) at_the_end_();
    return true;
  }
  [[nodiscard]] std::vector<Rank> waiting_for() const override {
    return left_ == 0 ? std::vector<Rank>{} : script_.waiting_for;
  }

 private:
  const FakeScript& script_;
  std::size_t number_;
  int left_;
  std::function<void()> at_the_end_;
};

}  // namespace

std::unique_ptr<Operation> FakeCommunicator::begin(std::string call, std::function<void()> at_the_end) {
  calls_.push_back(std::move(call));
  const std::size_t number = calls_.size() - 1;
  if (number == script_.fail_start) script_.error();
  return std::make_unique<FakeOperation>(script_, number, std::move(at_the_end));
}

std::unique_ptr<Operation> FakeCommunicator::start(const AllreduceOptions& options) {
  return begin("allreduce " + std::to_string(options.count), [this, options] {
    if (script_.allreduce) script_.allreduce(options);
  });
}

std::unique_ptr<Operation> FakeCommunicator::start(const BroadcastOptions& options) {
  return begin("broadcast " + std::to_string(options.bytes), {});
}

std::unique_ptr<Operation> FakeCommunicator::start(const AllgatherOptions& /*options*/) {
  return begin("allgather", {});
}

std::unique_ptr<Operation> FakeCommunicator::start(const ReduceScatterOptions& /*options*/) {
  return begin("reduce_scatter", {});
}

std::unique_ptr<Operation> FakeCommunicator::start_barrier() { return begin("barrier", {}); }

std::vector<std::unique_ptr<RegisteredBuffer>> FakeCommunicator::allocate(std::span<const std::size_t> sizes,
                                                                          std::chrono::milliseconds /*timeout*/) {
  return make_private_buffers(sizes);
}

Choice FakeCommunicator::explain(const AllreduceOptions& /*options*/) const { return {Algorithm::direct, "a fake"}; }

void FakeCommunicator::wait_for_activity(std::chrono::microseconds /*at_most*/) { std::this_thread::yield(); }

}  // namespace kolo::comm
