#pragma once
// A Communicator for memory of the host, made of one for memory of a device: copies what it is given to the device and
// the result back, all of it in streams. So the contract's cases hold for communicators of devices too.
#include <array>
#include <memory>
#include <vector>

#include "contract/communicator_contract.h"
#include "cuda/memory.h"
#include "cuda/stream.h"
#include "kolo/spi/communicator.h"

namespace kolo::test {

class DeviceAdapter final : public Communicator, public TakesSome {
 public:
  // Operations take turns with two streams.
  DeviceAdapter(Communicator& inner, cuda::RuntimePtr runtime, int device);

  [[nodiscard]] Rank rank() const noexcept override { return inner_.rank(); }
  [[nodiscard]] int size() const noexcept override { return inner_.size(); }
  [[nodiscard]] std::unique_ptr<kolo::Operation> start(const AllreduceOptions& options) override;
  [[nodiscard]] std::unique_ptr<kolo::Operation> start(const BroadcastOptions& options) override;
  [[nodiscard]] std::unique_ptr<kolo::Operation> start(const AllgatherOptions& options) override;
  [[nodiscard]] std::unique_ptr<kolo::Operation> start(const ReduceScatterOptions& options) override;
  [[nodiscard]] std::unique_ptr<kolo::Operation> start_barrier() override { return inner_.start_barrier(); }
  [[nodiscard]] std::vector<std::unique_ptr<RegisteredBuffer>> allocate(std::span<const std::size_t> sizes,
                                                                        std::chrono::milliseconds timeout) override;
  [[nodiscard]] Choice explain(const AllreduceOptions& options) const override { return inner_.explain(options); }
  void wait_for_activity(std::chrono::microseconds at_most) override { inner_.wait_for_activity(at_most); }
  // i16 is none of NCCL's types; averages of integers would wrap.
  [[nodiscard]] bool takes(DType dtype, ReduceOp op) const override;

 private:
  [[nodiscard]] Stream next_stream();

  Communicator& inner_;
  cuda::RuntimePtr runtime_;
  int device_;
  std::array<cuda::OwnStream, 2> streams_;
  std::size_t turn_ = 0;
};

}  // namespace kolo::test
