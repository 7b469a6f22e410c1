#pragma once
// Who waits in an engine holds its lease meanwhile, so that it does not go under them.
#include <chrono>
#include <future>
#include <memory>

#include "engine/driver.h"

namespace kolo::engine {

class Lease {
 public:
  explicit Lease(Driver& driver) {
    auto ended = std::make_shared<std::promise<void>>();
    all_gone_ = ended->get_future();
    held_ = std::shared_ptr<Driver>(&driver, [ended](Driver*) { ended->set_value(); });
  }
  // Of one who may wait later. Nothing to be locked once end() has been called.
  [[nodiscard]] std::weak_ptr<Driver> offer() const noexcept { return held_; }
  // Whether all have let go, at the latest after `timeout`; nobody can take it any more. Not beside offer().
  [[nodiscard]] bool end(std::chrono::milliseconds timeout) {
    held_.reset();
    return all_gone_.wait_for(timeout) == std::future_status::ready;
  }

 private:
  std::future<void> all_gone_;
  std::shared_ptr<Driver> held_;
};

}  // namespace kolo::engine
