#pragma once
// For objects that may outlive the engine that they use.
#include <unistd.h>

#include <memory>
#include <utility>

#include "kolo/export.h"

namespace KOLO_EXPORT kolo {

// Until an engine has gone, and only in the process that made it: a forked child has its memory, and none of its
// threads. Thread-safe.
class EngineLifetime {
 public:
  EngineLifetime() = default;  // of no engine: over
  explicit EngineLifetime(std::weak_ptr<const void> engine) : engine_(std::move(engine)) {}
  // Then the engine must not be used, nor what it has given, which may still be destroyed.
  [[nodiscard]] bool is_over() const noexcept { return engine_.expired() || process_ != ::getpid(); }

 private:
  std::weak_ptr<const void> engine_;
  pid_t process_ = ::getpid();
};

}  // namespace kolo
