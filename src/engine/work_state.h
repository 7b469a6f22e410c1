#pragma once
#include <atomic>
#include <exception>
#include <memory>
#include <span>
#include <string>

#include "engine/driver.h"

namespace kolo {

// The shared half of a Work. Written by the thread that holds the engine's progress lock until `finished`, read-only
// afterwards.
class WorkState {
 public:
  WorkState(std::string name, std::weak_ptr<engine::Driver> driver, std::chrono::milliseconds timeout)
      : name_(std::move(name)), driver_(std::move(driver)), timeout_(timeout) {}

  void complete(std::span<const std::byte> result, std::shared_ptr<void> memory);
  void fail(std::exception_ptr error);
  [[nodiscard]] bool finished() const noexcept { return finished_.load(std::memory_order_acquire); }
  void wait_for(std::chrono::milliseconds timeout);
  void wait() { wait_for(timeout_); }
  [[nodiscard]] std::span<const std::byte> result() const;

 private:
  std::string name_;
  std::weak_ptr<engine::Driver> driver_;  // a Work may outlive its engine
  std::chrono::milliseconds timeout_;
  std::span<const std::byte> result_;
  std::shared_ptr<void> memory_;  // keeps `result_` alive: the engine's cache and the caller share it
  std::exception_ptr error_;
  std::atomic<bool> finished_{false};
};

}  // namespace kolo
