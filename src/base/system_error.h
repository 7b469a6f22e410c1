#pragma once
#include <string>

namespace kolo::base {

// What an errno means.
[[nodiscard]] std::string errno_text(int code);
// Throws BackendError: what failed, and what errno says of it.
[[noreturn]] void throw_errno(const std::string& what);

}  // namespace kolo::base
