#pragma once
#include <string>
#include <utility>

#include "base/environment.h"

namespace kolo::test {

// Sets a variable of the process's environment, and unsets it at the end of the scope. REQUIRES: it was not set.
class ScopedVariable {
 public:
  ScopedVariable(std::string name, const std::string& value) : name_(std::move(name)) {
    base::set_environment(name_, value);
  }
  ~ScopedVariable() { base::unset_environment(name_); }
  ScopedVariable(const ScopedVariable&) = delete;
  ScopedVariable& operator=(const ScopedVariable&) = delete;

 private:
  std::string name_;
};

}  // namespace kolo::test
