#include "support/fake_communicator.h"

#include <numeric>
#include <thread>

#include "comm/private_buffer.h"

namespace kolo::comm {
namespace {

class FakeOperation final : public Operation {
 public:
  FakeOperation(const FakeScript& script, std::size_t number, FakeCommunicator::Call call)
      : script_(script), number_(number), left_(script.advances), call_(std::move(call)) {}
  // As a real one, which copies what it has not sent yet.
  ~FakeOperation() override {
    if (left_ == 0) return;
    const volatile std::byte* const memory = call_.memory.data();  // really read
    for (std::size_t i = 0; i < call_.memory.size(); i += kPage) static_cast<void>(memory[i]);
  }
  FakeOperation(const FakeOperation&) = delete;
  FakeOperation& operator=(const FakeOperation&) = delete;

  bool advance() override {
    if (left_ == 0) return true;
    if (number_ == script_.fail_advance) script_.error();
    if (number_ == script_.never_completes || --left_ != 0) return false;
    if (call_.at_the_end) call_.at_the_end();
    return true;
  }
  [[nodiscard]] std::vector<Rank> waiting_for() const override {
    return left_ == 0 ? std::vector<Rank>{} : script_.waiting_for;
  }

 private:
  static constexpr std::size_t kPage = 4096;
  const FakeScript& script_;
  std::size_t number_;
  int left_;
  FakeCommunicator::Call call_;
};

}  // namespace

std::unique_ptr<Operation> FakeCommunicator::begin(std::string name, Call call) {
  calls_.push_back(std::move(name));
  const std::size_t number = calls_.size() - 1;
  if (number == script_.fail_start) script_.error();
  return std::make_unique<FakeOperation>(script_, number, std::move(call));
}

std::unique_ptr<Operation> FakeCommunicator::start(const AllreduceOptions& options) {
  const auto at_the_end = [this, options] {
    if (script_.allreduce) script_.allreduce(options);
  };
  return begin("allreduce " + std::to_string(options.count),
               {{options.data, options.count * size_of(options.dtype)}, at_the_end});
}

std::unique_ptr<Operation> FakeCommunicator::start(const BroadcastOptions& options) {
  return begin("broadcast " + std::to_string(options.bytes), {{options.data, options.bytes}, {}});
}

std::unique_ptr<Operation> FakeCommunicator::start(const AllgatherOptions& options) {
  return begin("allgather", {{options.input, options.counts[static_cast<std::size_t>(rank())]}, {}});
}

std::unique_ptr<Operation> FakeCommunicator::start(const ReduceScatterOptions& options) {
  const std::size_t elements = std::accumulate(options.counts.begin(), options.counts.end(), std::size_t{0});
  return begin("reduce_scatter", {{options.input, elements * size_of(options.dtype)}, {}});
}

std::unique_ptr<Operation> FakeCommunicator::start_barrier() { return begin("barrier", {}); }

std::vector<std::unique_ptr<RegisteredBuffer>> FakeCommunicator::allocate(std::span<const std::size_t> sizes,
                                                                          std::chrono::milliseconds /*timeout*/) {
  return make_private_buffers(sizes);
}

Choice FakeCommunicator::explain(const AllreduceOptions& /*options*/) const { return {Algorithm::direct, "a fake"}; }

void FakeCommunicator::wait_for_activity(std::chrono::microseconds /*at_most*/) { std::this_thread::yield(); }

}  // namespace kolo::comm
