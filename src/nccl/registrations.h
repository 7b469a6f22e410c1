#pragma once
// What a communicator's NCCL knows of memory: whole pieces of ncclMemAlloc's, each registered as a buffer (of one rank
// alone) or as a window (of all ranks together).
#include <map>

#include "nccl/nccl_api.h"

namespace kolo::nccl {

// Externally synchronized.
class Registrations {
 public:
  void add_buffer(const void* memory, void* handle) { known_[memory] = {handle, false}; }
  void add_window(const void* memory, Window window) { known_[memory] = {window, true}; }
  [[nodiscard]] bool is_window(const void* memory) const;
  [[nodiscard]] bool any_window() const;
  // Nothing for memory that is not known. REQUIRES: no operation in flight uses it.
  void end(const NcclApi& api, Comm comm, const void* memory) noexcept;
  // The same for all of it. NCCL wants it before a communicator is finalized, while its connections are there.
  void end_all(const NcclApi& api, Comm comm) noexcept;

 private:
  struct Known {
    void* handle = nullptr;
    bool window = false;
  };
  static void end(const NcclApi& api, Comm comm, const Known& known) noexcept;

  std::map<const void*, Known> known_;
};

}  // namespace kolo::nccl
