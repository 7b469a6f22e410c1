#pragma once
// What a waiter needs of the engine.
#include <chrono>
#include <exception>
#include <functional>
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

}  // namespace kolo::engine
