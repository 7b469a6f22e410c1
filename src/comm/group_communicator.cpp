#include "comm/group_communicator.h"

#include <algorithm>
#include <utility>

#include "kolo/error.h"
#include "kolo/spi/communicator.h"

namespace kolo::comm {

// While something may wait in shared memory, sleeps only shortly.
void GroupCommunicator::wait_for_activity(std::chrono::microseconds at_most) {
  constexpr std::chrono::microseconds kNap{100};
  group_->transport->wait_for_activity(waiting_.in_shared_memory ? std::min(at_most, kNap) : at_most);
}

bool GroupCommunicator::made_progress() noexcept { return std::exchange(group_->moved, false); }

std::unique_ptr<Operation> GroupCommunicator::begun(std::unique_ptr<Operation> operation) {
  try {
    operation->advance();
  } catch (const Error&) {
  }
  return operation;
}

void GroupCommunicator::require_usable() const {
  require_open();
  if (group_->ended) std::rethrow_exception(group_->ended);
}

void GroupCommunicator::end_by(std::exception_ptr error) noexcept {
  if (!group_->ended) group_->ended = std::move(error);
}

std::exception_ptr GroupCommunicator::failure() const noexcept { return group_->ended; }

void GroupCommunicator::progress() {
  if (group_->pending.size() > 1) group_->advance_all();
}

// A peer far away is not hastened by it, and not every scheduler gives the core to whom it was meant for.
std::chrono::microseconds GroupCommunicator::yield_time() const noexcept {
  return waiting_.far_away ? std::chrono::microseconds(100) : Communicator::yield_time();
}

}  // namespace kolo::comm
