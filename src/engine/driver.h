#pragma once
// What a waiter needs of the engine, and the lease that keeps the engine alive meanwhile.
#include <chrono>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "kolo/types.h"

namespace kolo::engine {

// Whom somebody waits for, and what is said about that.
struct Awaited {
  std::vector<Rank> ranks;
  std::string text;
};

class Driver {
 public:
  virtual ~Driver() = default;
  // Makes progress until `done` returns true: spins, then yields, then sleeps in the transport. False after `timeout`.
  virtual bool drive_until(const std::function<bool()>& done, std::chrono::milliseconds timeout) = 0;
  // The program gets this error now.
  virtual void told(const std::exception_ptr& error) = 0;
  // Which ranks the named operation still waits for, as far as this one knows: nobody where it does not, and all of
  // those below in the tree where one is known to be missing.
  [[nodiscard]] virtual Awaited whom_for(const std::string& name) = 0;
};

// A waiter holds the lease of its engine. The engine ends when no waiter holds it.
class Lease {
 public:
  explicit Lease(Driver& driver) {
    auto ended = std::make_shared<std::promise<void>>();
    all_gone_ = ended->get_future();
    held_ = std::shared_ptr<Driver>(&driver, [ended](Driver*) { ended->set_value(); });
  }
  // For a waiter, which locks it while it waits. After end() it cannot be locked.
  [[nodiscard]] std::weak_ptr<Driver> offer() const noexcept { return held_; }
  // Returns whether all waiters have let go, at the latest after `timeout`. REQUIRES: no call of offer() meanwhile.
  [[nodiscard]] bool end(std::chrono::milliseconds timeout) {
    held_.reset();
    return all_gone_.wait_for(timeout) == std::future_status::ready;
  }

 private:
  std::future<void> all_gone_;
  std::shared_ptr<Driver> held_;
};

}  // namespace kolo::engine
