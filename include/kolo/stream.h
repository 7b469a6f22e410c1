#pragma once

#include "kolo/export.h"

namespace KOLO_EXPORT kolo {

// The stream on which a caller's memory is ready. The default is host memory: ready when the call is made.
// `handle` is a cudaStream_t held as a plain pointer, so that no CUDA header is needed here; not owned.
struct Stream {
  void* handle = nullptr;
  int device = -1;  // -1: host

  [[nodiscard]] bool on_host() const noexcept { return device < 0; }
};

}  // namespace kolo
