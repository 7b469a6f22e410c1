#include "comm/self_communicator.h"

#include <cstring>
#include <thread>

#include "collectives/reduction.h"
#include "comm/complete_operation.h"
#include "comm/make.h"
#include "comm/private_buffer.h"
#include "comm/validate.h"

namespace kolo::comm {

std::unique_ptr<Operation> allreduce_alone(const AllreduceOptions& options) {
  if (!options.flags.vetoed() && options.count != 0 && (options.prescale != 1.0 || options.postscale != 1.0)) {
    const std::byte* const input = options.data;
    collectives::reduction_of(options).run({&input, 1}, {&options.data, 1}, options.count);
  }
  return std::make_unique<CompleteOperation>();
}

std::unique_ptr<Operation> allgather_alone(const AllgatherOptions& options) {
  if (options.counts[0] != 0) std::memmove(options.output, options.input, options.counts[0]);
  return std::make_unique<CompleteOperation>();
}

std::unique_ptr<Operation> reduce_scatter_alone(const ReduceScatterOptions& options) {
  const std::size_t bytes = options.counts[0] * size_of(options.dtype);
  if (bytes != 0) std::memmove(options.output, options.input, bytes);
  return std::make_unique<CompleteOperation>();
}

namespace {

class SelfCommunicator final : public Communicator {
 public:
  [[nodiscard]] Rank rank() const noexcept override { return 0; }
  [[nodiscard]] int size() const noexcept override { return 1; }
  std::unique_ptr<Operation> start(const AllreduceOptions& options) override {
    require_open();
    validate(options);
    return allreduce_alone(options);
  }
  std::unique_ptr<Operation> start(const BroadcastOptions& options) override {
    require_open();
    validate(options, 1);
    return std::make_unique<CompleteOperation>();
  }
  std::unique_ptr<Operation> start(const AllgatherOptions& options) override {
    require_open();
    validate(options, 1, 0);
    return allgather_alone(options);
  }
  std::unique_ptr<Operation> start(const ReduceScatterOptions& options) override {
    require_open();
    validate(options, 1, 0);
    return reduce_scatter_alone(options);
  }
  std::unique_ptr<Operation> start_barrier() override {
    require_open();
    return std::make_unique<CompleteOperation>();
  }
  std::vector<std::unique_ptr<RegisteredBuffer>> allocate(std::span<const std::size_t> sizes,
                                                          std::chrono::milliseconds /*timeout*/) override {
    require_open();
    return make_private_buffers(sizes);
  }
  [[nodiscard]] Choice explain(const AllreduceOptions& /*options*/) const override {
    return {Algorithm::direct, "a group of one rank: nothing to exchange"};
  }
  void wait_for_activity(std::chrono::microseconds /*at_most*/) override { std::this_thread::yield(); }
};

}  // namespace

std::unique_ptr<Communicator> make_self() { return std::make_unique<SelfCommunicator>(); }

}  // namespace kolo::comm
