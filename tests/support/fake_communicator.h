#pragma once
// A communicator for tests of what stands above it: one rank of a group whose others do not exist. It writes down every
// call, completes when told to, and fails where told to. An operation that is given up reads its memory a last time.
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "kolo/spi/communicator.h"

namespace kolo::comm {

struct FakeScript {
  static constexpr std::size_t kNever = std::numeric_limits<std::size_t>::max();

  Rank rank = 0;
  int size = 2;
  int advances = 1;                   // calls of advance() until an operation is complete
  std::size_t fail_start = kNever;    // the start of this operation (from 0) throws `error`
  std::size_t fail_advance = kNever;  // the first advance() of this operation throws `error`
  std::size_t never_completes = kNever;
  std::function<void()> error{};        // throws
  std::vector<Rank> waiting_for = {1};  // of operations that are not complete
  // What an allreduce does to data and flags when it completes; empty: nothing.
  std::function<void(const AllreduceOptions&)> allreduce{};
};

class FakeCommunicator : public Communicator {
 public:
  struct Call {
    std::span<const std::byte> memory;  // this rank's input
    std::function<void()> at_the_end;
  };
  explicit FakeCommunicator(FakeScript script) : script_(std::move(script)) {}

  // "allreduce 12", "broadcast 8", "allgather", "reduce_scatter", "barrier", in the order of their start.
  [[nodiscard]] const std::vector<std::string>& calls() const noexcept { return calls_; }

  [[nodiscard]] Rank rank() const noexcept override { return script_.rank; }
  [[nodiscard]] int size() const noexcept override { return script_.size; }
  std::unique_ptr<Operation> start(const AllreduceOptions& options) override;
  std::unique_ptr<Operation> start(const BroadcastOptions& options) override;
  std::unique_ptr<Operation> start(const AllgatherOptions& options) override;
  std::unique_ptr<Operation> start(const ReduceScatterOptions& options) override;
  std::unique_ptr<Operation> start_barrier() override;
  std::vector<std::unique_ptr<RegisteredBuffer>> allocate(std::span<const std::size_t> sizes,
                                                          std::chrono::milliseconds timeout) override;
  [[nodiscard]] Choice explain(const AllreduceOptions& options) const override;
  void wait_for_activity(std::chrono::microseconds at_most) override;

 private:
  std::unique_ptr<Operation> begin(std::string name, Call call);

  FakeScript script_;
  std::vector<std::string> calls_;
};

}  // namespace kolo::comm
