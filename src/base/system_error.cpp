#include "base/system_error.h"

#include <cerrno>
#include <system_error>

#include "kolo/error.h"

namespace kolo::base {

std::string errno_text(int code) { return std::generic_category().message(code); }

void throw_errno(const std::string& what) { throw BackendError(what + ": " + errno_text(errno)); }

}  // namespace kolo::base
