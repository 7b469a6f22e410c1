#pragma once
// The Communicator for memory of a device, over NCCL.
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cuda/kernel.h"
#include "kernels/scale.h"
#include "kolo/spi/communicator.h"
#include "nccl/device_buffer.h"
#include "nccl/group_state.h"
#include "nccl/scratch.h"

namespace kolo::nccl {

struct CommunicatorParts {
  std::shared_ptr<GroupState> group;
  bool registers_buffers = true;  // memory of allocate() is NCCL's and registered, where all ranks can have it
  std::shared_ptr<cuda::KernelImage> kernels;  // null: this build has no device code
};

// All of its operations run in the order in which they were started, whatever streams they were given: each waits, on
// the device, for the one before it.
class NcclCommunicator final : public Communicator {
 public:
  explicit NcclCommunicator(const CommunicatorParts& parts);
  ~NcclCommunicator() override;

  [[nodiscard]] Rank rank() const noexcept override { return handle().rank(); }
  [[nodiscard]] int size() const noexcept override { return handle().size(); }
  [[nodiscard]] std::unique_ptr<Operation> start(const AllreduceOptions& options) override;
  [[nodiscard]] std::unique_ptr<Operation> start(const BroadcastOptions& options) override;
  [[nodiscard]] std::unique_ptr<Operation> start(const AllgatherOptions& options) override;
  [[nodiscard]] std::unique_ptr<Operation> start(const ReduceScatterOptions& options) override;
  [[nodiscard]] std::unique_ptr<Operation> start_barrier() override;
  // From NCCL's own allocator and registered with it, as far as that was asked for and all ranks can have it.
  [[nodiscard]] std::vector<std::unique_ptr<RegisteredBuffer>> allocate(std::span<const std::size_t> sizes,
                                                                        std::chrono::milliseconds timeout) override;
  [[nodiscard]] Choice explain(const AllreduceOptions& options) const override;
  void wait_for_activity(std::chrono::microseconds at_most) override;
  void abort() noexcept override;

 private:
  [[nodiscard]] CommHandle& handle() const noexcept { return group_->handle; }
  void check_stream(std::string_view call, Stream stream) const;
  void check_scale(std::string_view call, double factor) const;
  void scale(const kernels::ScaleRun& run, Stream stream) const;
  // Enqueues behind everything before; `body` does it.
  using Body = std::function<void()>;
  [[nodiscard]] std::unique_ptr<Operation> enqueue(Stream stream, std::string what, const Body& body);

  // nccl_allocate.cpp
  void finish(Operation& operation, std::chrono::milliseconds timeout);
  [[nodiscard]] bool all_agree(bool mine, std::chrono::milliseconds timeout);
  [[nodiscard]] std::optional<Buffers> registered_buffers(std::span<const std::size_t> sizes,
                                                          std::chrono::milliseconds timeout);

  std::shared_ptr<GroupState> group_;
  bool registers_buffers_;
  std::shared_ptr<cuda::KernelImage> kernels_;
  Scratch scratch_;
  StreamPointPtr last_;  // the end of the latest operation
};

}  // namespace kolo::nccl
