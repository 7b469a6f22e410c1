#pragma once
// Tensors on disk, without LibTorch: safetensors files, atomic writes, and directories of checkpoints.
//
//   if (context.rank() == 0) {
//     kolo::checkpoint::CheckpointDirectory directory("checkpoints");
//     directory.save({.step = 100}, [&](const std::filesystem::path& folder) {
//       kolo::checkpoint::write_safetensors(folder / "model.safetensors", tensors);
//     });
//   }
//
// All functions throw BackendError if a file operation fails.
#include <chrono>
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
#include <utility>
#include <vector>

#include "kolo/detail/export.h"
#include "kolo/types.h"

namespace KOLO_EXPORT kolo {
namespace checkpoint {

// A dense row-major tensor in memory of the caller.
struct TensorView {
  std::string name;
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;  // empty: a scalar
  std::span<const std::byte> bytes;
};

using Metadata = std::map<std::string, std::string>;

// A file that has been written completely.
struct WrittenFile {
  std::string name;
  std::uint64_t size = 0;
  std::uint64_t checksum = 0;  // XXH3, 64 bit
};

// Writes the tensors in the given order, without gaps, to a temporary file beside `file`; flushes it to disk and
// renames it. Throws UsageError for a repeated name, a size that does not match its shape, or the reserved name
// __metadata__.
WrittenFile write_safetensors(const std::filesystem::path& file, std::span<const TensorView> tensors,
                              const Metadata& metadata = {});

// Writes the file that says which of several safetensors files a tensor is in, as Hugging Face's tools read it.
// `files`: name of a tensor, name of its file; `bytes`: of all tensors.
WrittenFile write_safetensors_index(const std::filesystem::path& index,
                                    std::span<const std::pair<std::string, std::string>> files, std::uint64_t bytes);

// A safetensors file in memory. The constructor checks each length, offset, shape and dtype, and throws BackendError
// that names the file and the fault.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path& file);
  // The same from bytes in memory; `name` is for messages.
  SafetensorsFile(std::string name, std::vector<std::byte> content);
  // Movable only. tensors() returns views into this object, so the object must outlive them.
  SafetensorsFile(SafetensorsFile&&) = default;
  SafetensorsFile& operator=(SafetensorsFile&&) = default;

  [[nodiscard]] const std::vector<TensorView>& tensors() const noexcept { return tensors_; }  // in file order
  [[nodiscard]] const Metadata& metadata() const noexcept { return metadata_; }
  // Throws BackendError that names the file if there is no such tensor.
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

// Replaces the content of `file`. After a crash it has the old content or the new one, never a part.
WrittenFile write_file(const std::filesystem::path& file, std::span<const std::byte> content);
WrittenFile write_file(const std::filesystem::path& file, std::string_view content);
[[nodiscard]] std::vector<std::byte> read_file(const std::filesystem::path& file);

struct CheckpointInfo {
  std::int64_t step = 0;   // optimizer steps done
  std::int64_t epoch = 0;  // epochs completed
  Metadata metadata{};     // anything else, e.g. architecture, world size, seed
  bool finite = true;      // set to false by the caller if a weight is NaN or infinite
  std::int64_t time = 0;   // when it was saved, in seconds since 1970; 0: not known. save() and commit() set it
};

struct Checkpoint {
  std::filesystem::path folder;
  CheckpointInfo info;
  std::vector<WrittenFile> files;  // as the manifest lists them
};

class DirectoryLock;

struct CheckpointOptions {
  // prune() keeps this many: the newest checkpoint and those of the highest steps. If the newest one is not finite
  // (CheckpointInfo::finite), it also keeps the highest finite step. 0: it deletes none.
  int keep = 3;
  // prune() also keeps the first checkpoint of each such period, e.g. of each day. 0: none.
  std::chrono::seconds keep_one_per{0};
};

//   root/
//     checkpoint-000000000200/   complete: the names, sizes and checksums of manifest.json match
//       manifest.json            written last, inside the temporary folder
//       model.safetensors ...
//     .tmp-4711-1/               an incomplete save: ignored, and removed by the next save
//     lock.json                  host, process and start time of the process that may write
//
// One process writes at a time (rank 0); any number may read. A lock is taken over if its owner has ended (owner on
// this host) or has sent no heartbeat for 60 seconds (owner on another host).
class CheckpointDirectory {
 public:
  explicit CheckpointDirectory(std::filesystem::path root, CheckpointOptions options = {});
  CheckpointDirectory(CheckpointDirectory&& other) noexcept;
  CheckpointDirectory& operator=(CheckpointDirectory&& other) noexcept;
  ~CheckpointDirectory();  // unlocks

  // Creates and locks the directory. The lock is held until the object is destroyed. Returns a message for the user if
  // the lock was taken over, else "". Throws UsageError, which names the owner, if another process holds the lock.
  // `wait`: how long to wait for an owner on another host that may have ended. 61 s are enough to know.
  std::string lock(std::chrono::seconds wait = std::chrono::seconds(0));

  // Creates a temporary folder, calls `write` to fill it, flushes the files to disk, adds the manifest and renames the
  // folder. Rethrows an exception of `write`; the directory is then unchanged. Replaces a checkpoint of the same step.
  // Then calls prune(). Returns the folder. Without
  // lock(), save() holds the lock during the call and throws UsageError if another process holds it. With lock(),
  // save() throws BackendError if another process has taken over the lock.
  std::filesystem::path save(const CheckpointInfo& info,
                             const std::function<void(const std::filesystem::path& folder)>& write);

  // The parts of save() for files that several processes write, each with its own object, all with the same `id`:
  //
  //   every process:  folder = create_part_folder(id); files = write_safetensors(folder / ..., ...)
  //   the one with lock(), when all have written:  commit(info, id, files of all processes); prune()
  //
  // `id`: letters, digits and '-'. discard() deletes the temporary folder of a checkpoint that is given up; so does the
  // next lock(). commit() throws BackendError if it does not find each file with its size.
  std::filesystem::path create_part_folder(const std::string& id);
  std::filesystem::path commit(const CheckpointInfo& info, const std::string& id, std::span<const WrittenFile> files);
  void discard(const std::string& id) noexcept;
  // Deletes old checkpoints as CheckpointOptions says. `newest`: what commit() returned. Ignores an error in a
  // deletion; the next call tries again.
  void prune(const std::filesystem::path& newest);

  // Of the checkpoints that pass verify(), that of the highest step. `skipped` gets a line per higher step that fails.
  [[nodiscard]] std::optional<Checkpoint> latest(std::vector<std::string>* skipped = nullptr) const;

  // All checkpoints with a readable manifest, by step; other files are not verified. `skipped` gets a line per folder
  // without one.
  [[nodiscard]] std::vector<Checkpoint> list(std::vector<std::string>* skipped = nullptr) const;
  // Deletes one.
  void remove(const std::filesystem::path& folder);

  // Where the checkpoint of a step is, if there is one.
  [[nodiscard]] std::filesystem::path folder_of(std::int64_t step) const;

  // Compares sizes and checksums of all files with the manifest. Throws BackendError that names the fault.
  static Checkpoint verify(const std::filesystem::path& folder);

  // The content of one file of a checkpoint. Throws BackendError unless it has the size and checksum of `file`.
  static std::vector<std::byte> read(const std::filesystem::path& folder, const WrittenFile& file);

  // One line for each name with a different value: "lr: 0.1 in the checkpoint, 0.2 in this run". Names that are missing
  // from `saved` or from `settings` are left out.
  static std::vector<std::string> differences(const Metadata& saved, const Metadata& settings);

 private:
  [[nodiscard]] std::filesystem::path part_folder(const std::string& id) const;

  std::filesystem::path root_;
  CheckpointOptions options_;
  std::unique_ptr<DirectoryLock> lock_;
};

}  // namespace checkpoint
}  // namespace kolo
