#pragma once
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "base/hash.h"
#include "base/unique_fd.h"
#include "kolo/checkpoint.h"

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

  // The disk begins to write while later bytes are still being appended.
  void append(std::span<const std::byte> bytes);
  // Of the temporary file.
  [[nodiscard]] int descriptor() const noexcept { return fd_.get(); }
  // fsync, rename, fsync of the folder.
  WrittenFile commit();

 private:
  fs::path target_;
  fs::path temporary_;
  base::UniqueFd fd_;
  std::uint64_t size_ = 0;
  std::uint64_t flushed_ = 0;  // bytes that the disk was told to write
  base::StreamHash64 hash_;
};

// Flushes a file's content, or a folder's entries, to the disk.
void sync_to_disk(const fs::path& path);

// Makes parent/PREFIX<pid>-<n> with the first free n.
fs::path make_temporary_folder(const fs::path& parent, std::string_view prefix);

}  // namespace kolo::checkpoint
