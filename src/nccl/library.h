#pragma once
// The NCCL of this process.
#include <memory>
#include <string>
#include <vector>

#include "nccl/nccl_api.h"

namespace kolo::nccl {

inline constexpr int kOldestVersion = 21800;  // 2.18: what the table calls, with the meaning it relies on

// Immutable; thread-safe.
class Library {
 public:
  // `handle` keeps alive what `api` points into; `path` says where that is. Throws BackendError for a call that is
  // missing and for a version that is too old.
  Library(const NcclApi& api, std::string path, std::shared_ptr<void> handle = {});

  [[nodiscard]] const NcclApi& api() const noexcept { return api_; }
  [[nodiscard]] int version() const noexcept { return version_; }  // 22809 is 2.28.9
  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  // "NCCL 2.28.9 from /usr/lib/libnccl.so.2 (kolo needs 2.18 or newer)"
  [[nodiscard]] std::string describe() const;

 private:
  NcclApi api_;
  std::string path_;
  std::shared_ptr<void> handle_;
  int version_ = 0;
};

using LibraryPtr = std::shared_ptr<const Library>;

[[nodiscard]] std::string version_text(int version);  // "2.28.9"

// Where load_library() looks, in this order, each name as dlopen() takes it. The first is taken only where the process
// has it already, so that kolo and torch use the same one. `torch_library` is the path of a loaded libtorch, or empty.
[[nodiscard]] std::vector<std::string> library_candidates(const std::string& torch_library);

// Throws BackendError that says where it was looked for, what was wrong there, and what to do.
[[nodiscard]] LibraryPtr load_library();
// The same with a list of one's own.
[[nodiscard]] LibraryPtr load_library_from(const std::vector<std::string>& candidates);

}  // namespace kolo::nccl
