#pragma once
// What a waiter needs of the engine.
#include <chrono>
#include <exception>
#include <functional>
#include <string>

namespace kolo::engine {

class Driver {
 public:
  virtual ~Driver() = default;
  // Makes progress until `done` returns true: spins, then yields, then sleeps in the transport. False after `timeout`.
  virtual bool drive_until(const std::function<bool()>& done, std::chrono::milliseconds timeout) = 0;
  // The program gets this error now.
  virtual void told(const std::exception_ptr& error) = 0;
  // Which ranks the named operation still waits for, in words fit for an error.
  [[nodiscard]] virtual std::string whom_for(const std::string& name) = 0;
};

}  // namespace kolo::engine
