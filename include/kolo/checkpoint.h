#pragma once
// Tensors on disk, without LibTorch: safetensors files, files that appear whole or not at all, and directories of
// several files that are committed at once.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kolo/export.h"
#include "kolo/types.h"

namespace KOLO_EXPORT kolo {
namespace checkpoint {

// A dense row-major tensor in memory that somebody else owns.
struct TensorView {
  std::string name;
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;  // empty: a scalar
  std::span<const std::byte> bytes;
};

using Metadata = std::map<std::string, std::string>;

// Tensors lie in the file in the order given, without gaps. Written to a temporary file beside `file`, flushed to disk
// and renamed. UsageError for names given twice, sizes that do not match shapes, or the reserved name __metadata__.
void write_safetensors(const std::filesystem::path& file, std::span<const TensorView> tensors,
                       const Metadata& metadata = {});

// A safetensors file read into memory and checked: every length, offset, shape and dtype. Anything that is not exactly
// right is a BackendError that names the file and what is wrong.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path& file);
  // The same from bytes already in memory; `name` is for messages.
  SafetensorsFile(std::string name, std::vector<std::byte> content);
  // Moved, not copied: the views point into it.
  SafetensorsFile(SafetensorsFile&&) = default;
  SafetensorsFile& operator=(SafetensorsFile&&) = default;

  [[nodiscard]] const std::vector<TensorView>& tensors() const noexcept { return tensors_; }  // in file order
  [[nodiscard]] const Metadata& metadata() const noexcept { return metadata_; }
  // BackendError naming the file when it is not there.
  [[nodiscard]] const TensorView& at(std::string_view name) const;
  [[nodiscard]] bool contains(std::string_view name) const;

 private:
  void parse();
  std::string name_;
  std::vector<std::byte> content_;
  std::vector<TensorView> tensors_;
  std::map<std::string, std::size_t, std::less<>> by_name_;
  Metadata metadata_;
};

// Replaces `file` by content: after a crash it is the old one or the new one, never a part.
void write_file(const std::filesystem::path& file, std::span<const std::byte> content);
void write_file(const std::filesystem::path& file, std::string_view content);
[[nodiscard]] std::vector<std::byte> read_file(const std::filesystem::path& file);

struct CheckpointInfo {
  std::int64_t step = 0;   // optimizer steps done
  std::int64_t epoch = 0;  // epochs completed
  Metadata metadata;       // anything else, e.g. architecture, world size, seed
  bool finite = true;      // false: a weight is NaN or infinite
};

struct Checkpoint {
  std::filesystem::path folder;
  CheckpointInfo info;
};

class DirectoryLock;

struct CheckpointOptions {
  // Complete checkpoints kept by save(); 0: all. The newest with CheckpointInfo::finite is kept in any case.
  int keep = 3;
};

//   root/
//     checkpoint-000000000200/   complete: has a manifest.json whose names, sizes and checksums hold
//       manifest.json            written last, inside the temporary folder
//       model.safetensors ...
//     .tmp-4711-1/               a save that did not finish: ignored, and removed by the next save
//     lock.json                  host, process and start time of the process that may write
//
// One process writes at a time (rank 0); any number may read. A lock is taken over if its process on this host has
// ended, or if a process on another host has sent no heartbeat for 60 seconds.
class CheckpointDirectory {
 public:
  explicit CheckpointDirectory(std::filesystem::path root, CheckpointOptions options = {});
  CheckpointDirectory(CheckpointDirectory&& other) noexcept;
  CheckpointDirectory& operator=(CheckpointDirectory&& other) noexcept;
  ~CheckpointDirectory();  // unlocks

  // Creates and locks the directory. The lock is held until the object is destroyed. Returns a message for the user if
  // the lock was taken over, else "". Throws UsageError, which names the owner, if another process holds the lock.
  std::string lock();

  // Makes a temporary folder, has `write` put files into it, flushes them to disk, adds the manifest and renames the
  // folder: committed at once. Throws what `write` throws, with nothing changed. A checkpoint of the same step is
  // replaced. A folder that is to be removed and cannot be is left. Returns the folder. Without lock(), save() holds
  // the lock during the call and throws UsageError if another process holds it. With lock(), save() throws BackendError
  // if another process has taken over the lock.
  std::filesystem::path save(const CheckpointInfo& info,
                             const std::function<void(const std::filesystem::path& folder)>& write);

  // The one of the most steps whose files are all as the manifest says. Why others were passed over is appended to
  // `skipped`, one line each.
  [[nodiscard]] std::optional<Checkpoint> latest(std::vector<std::string>* skipped = nullptr) const;

  // All that have a readable manifest, by step; contents are not verified.
  [[nodiscard]] std::vector<Checkpoint> list() const;

  // Reads every file. BackendError says what is wrong.
  static Checkpoint verify(const std::filesystem::path& folder);

  // One line for each name whose value differs: "lr: 0.1 in the checkpoint, 0.2 in this run". Names that are missing
  // from `saved` or from `settings` are left out.
  static std::vector<std::string> differences(const Metadata& saved, const Metadata& settings);

 private:
  std::filesystem::path root_;
  CheckpointOptions options_;
  std::unique_ptr<DirectoryLock> lock_;
};

}  // namespace checkpoint
}  // namespace kolo
