#pragma once
// What a waiter needs of the engine.
#include <chrono>
#include <functional>
#include <string>

namespace kolo::engine {

class Driver {
 public:
  virtual ~Driver() = default;
  // Makes progress until `done` returns true: spins, then yields, then sleeps in the transport. False after `timeout`.
  virtual bool drive_until(const std::function<bool()>& done, std::chrono::milliseconds timeout) = 0;
  // Which ranks the named operation still waits for, in words fit for an error.
  [[nodiscard]] virtual std::string whom_for(const std::string& name) = 0;
};

}  // namespace kolo::engine
