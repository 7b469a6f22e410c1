#pragma once
#include <string>

#include "base/deadline.h"
#include "kolo/spi/communicator.h"
#include "nccl/group_state.h"

namespace kolo::nccl {

// A collective that is in a stream. Complete when the device has passed it and NCCL has no error to tell; dead, as all
// others of its group, on an error or when `deadline` passes first. Abandoned, it stays in its stream.
class DeviceOperation final : public Operation {
 public:
  DeviceOperation(std::shared_ptr<GroupState> group, StreamPointPtr end, std::string what)
      : group_(std::move(group)), end_(std::move(end)), what_(std::move(what)), deadline_(group_->handle.timeout()) {}

  bool advance() override;
  // NCCL does not say.
  [[nodiscard]] std::vector<Rank> waiting_for() const override { return {}; }

 private:
  [[nodiscard]] bool passed();

  std::shared_ptr<GroupState> group_;
  StreamPointPtr end_;
  std::string what_;
  base::Deadline deadline_;
  bool complete_ = false;
};

}  // namespace kolo::nccl
