#pragma once
// What communicators have in common whose operations are a group's: how they begin, and how they are waited for.
#include <exception>
#include <memory>
#include <utility>

#include "collectives/machine.h"
#include "kolo/error.h"
#include "kolo/spi/communicator.h"

namespace kolo::comm {

class GroupCommunicator : public Communicator {
 public:
  [[nodiscard]] Rank rank() const noexcept override { return group_->rank(); }
  [[nodiscard]] int size() const noexcept override { return group_->size(); }
  void wait_for_activity(std::chrono::microseconds at_most) override;
  [[nodiscard]] bool made_progress() noexcept override;

 protected:
  // Where operations wait for others, which decides how to wait for them.
  struct Waiting {
    bool in_shared_memory = false;  // some do: it rings no bell
    bool far_away = false;          // for ranks on other hosts
    int spin_iterations = 0;
  };
  GroupCommunicator(std::shared_ptr<collectives::Group> group, const Waiting& waiting)
      : group_(std::move(group)), waiting_(waiting) {}

  // Lets a new operation show its data at once. An error is kept by the operation and comes back from its advance().
  [[nodiscard]] static std::unique_ptr<Operation> begun(std::unique_ptr<Operation> operation);
  // Calls `make`, a collective step before an operation starts. After TimeoutError the late rank is
  // in another call, so the group ends; it also ends if a rank is lost or fails.
  template <class Make>
  decltype(auto) together(Make&& make) {
    try {
      return allocated(std::forward<Make>(make));
    } catch (const TimeoutError&) {
      end_by(std::current_exception());
      throw;
    }
  }
  // Calls `make`, an allocation that the program may repeat after TimeoutError.
  template <class Make>
  decltype(auto) allocated(Make&& make) {
    try {
      return std::forward<Make>(make)();
    } catch (const PeerLostError&) {
      end_by(std::current_exception());
      throw;
    } catch (const PeerFailedError&) {
      end_by(std::current_exception());
      throw;
    }
  }
  // Throws UsageError after close(), else what has ended the group.
  void require_usable() const;
  void end_by(std::exception_ptr error) noexcept override;
  [[nodiscard]] const std::shared_ptr<collectives::Group>& group() const noexcept { return group_; }

  [[nodiscard]] std::exception_ptr failure() const noexcept override;
  void progress() override;
  [[nodiscard]] int spin_iterations() const noexcept override { return waiting_.spin_iterations; }
  [[nodiscard]] std::chrono::microseconds yield_time() const noexcept override;

 private:
  std::shared_ptr<collectives::Group> group_;
  Waiting waiting_;
};

}  // namespace kolo::comm
