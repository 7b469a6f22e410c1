#pragma once
#include <c10/util/Exception.h>

#include <exception>
#include <string>

namespace kolo {

// The text of the exception that `act` throws; empty if it throws none.
template <class Act>
[[nodiscard]] std::string failure_of(Act act) {
  try {
    act();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  } catch (const std::exception& error) {
    return *error.what() == '\0' ? "no text" : error.what();
  }
  return {};
}

}  // namespace kolo
