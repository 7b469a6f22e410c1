#pragma once
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "base/unique_fd.h"

namespace kolo::checkpoint {

namespace fs = std::filesystem;

// "cannot <doing> <path>: <errno's text>"
[[noreturn]] void throw_errno(std::string_view doing, const fs::path& path);

// A file that takes its name only in commit(): before that it is .NAME.tmp-PID-N beside it, and goes away with the
// object.
class AtomicFile {
 public:
  explicit AtomicFile(fs::path target);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void append(std::span<const std::byte> bytes);
  // Of the temporary file.
  [[nodiscard]] int descriptor() const noexcept { return fd_.get(); }
  // fsync, rename, fsync of the folder.
  void commit();

 private:
  fs::path target_;
  fs::path temporary_;
  base::UniqueFd fd_;
};

// Flushes a file's content, or a folder's entries, to the disk.
void sync_to_disk(const fs::path& path);

// Makes parent/PREFIX<pid>-<n> with the first free n.
fs::path make_temporary_folder(const fs::path& parent, std::string_view prefix);

}  // namespace kolo::checkpoint
