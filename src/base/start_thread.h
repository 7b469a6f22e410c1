#pragma once
// A thread, or an error of kolo's that says what it was for.
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "kolo/error.h"

namespace kolo::base {

// Throws BackendError where the system has none to give: a limit of the user's (ulimit -u), or memory.
template <class Run>
[[nodiscard]] std::thread start_thread(const char* what, Run run) {
  try {
    return std::thread(std::move(run));
  } catch (const std::system_error& error) {
    throw BackendError(std::string("no thread for ") + what + ": " + error.code().message());
  }
}

}  // namespace kolo::base
