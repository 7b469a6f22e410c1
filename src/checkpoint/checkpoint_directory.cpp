// The order of events in save(), and what a crash leaves. A lock.json of a process that has crashed is taken over.
//
//   .tmp-P-N/ made, files written, each flushed   a .tmp folder: ignored, removed by the next save
//   manifest.json written and flushed             the same
//   rename to checkpoint-STEP                     the new checkpoint, or still the .tmp folder
//   parent flushed                                the new checkpoint
//   old ones beyond `keep` renamed to .tmp, removed
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <utility>

#include "base/hash.h"
#include "directory_lock.h"
#include "file_io.h"
#include "kolo/checkpoint.h"
#include "kolo/error.h"
#include "manifest.h"

namespace kolo::checkpoint {
namespace {

constexpr std::string_view kTemporaryPrefix = ".tmp-";
constexpr std::string_view kCheckpointPrefix = "checkpoint-";

std::string folder_name(std::int64_t step) {
  std::string digits = std::to_string(step);
  constexpr std::size_t kDigits = 12;  // so that names sort as numbers do
  if (digits.size() < kDigits) digits.insert(0, kDigits - digits.size(), '0');
  return std::string(kCheckpointPrefix) + digits;
}

bool starts_with(const fs::path& path, std::string_view prefix) {
  return path.filename().string().compare(0, prefix.size(), prefix) == 0;
}

// Names in a folder, sorted; empty when there is no such folder.
std::vector<fs::path> entries(const fs::path& root, std::string_view prefix) {
  std::vector<fs::path> paths;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(root, error)) {
    if (starts_with(entry.path(), prefix)) paths.push_back(entry.path());
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    throw BackendError("cannot list " + root.string() + ": " + error.message());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

void create_folder(const fs::path& root) {
  std::error_code error;
  fs::create_directories(root, error);
  if (error) throw BackendError("cannot create " + root.string() + ": " + error.message());
}

// A folder that cannot be removed stays: a later save() tries again.
void remove_folder(const fs::path& folder) {
  std::error_code ignored;
  fs::remove_all(folder, ignored);
}

// Removes `folder` under a temporary name, so that no reader sees half of a checkpoint under the name of a complete
// one. False: it cannot be renamed, and stays.
bool retire(const fs::path& folder) {
  const fs::path doomed = make_temporary_folder(folder.parent_path(), kTemporaryPrefix);
  const bool renamed = ::rename(folder.c_str(), doomed.c_str()) == 0;
  const int reason = errno;
  remove_folder(doomed);
  errno = reason;
  return renamed;
}

void move_into_place(const fs::path& temporary, const fs::path& target) {
  if (fs::exists(target)) {
    // The same step again. Where the file system cannot swap two folders there is a moment without either.
    if (::renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE) == 0) {
      sync_to_disk(target.parent_path());
      remove_folder(temporary);
      return;
    }
    if (!retire(target)) throw_errno("rename", target);
  }
  if (::rename(temporary.c_str(), target.c_str()) != 0) throw_errno("rename " + temporary.string() + " to", target);
  sync_to_disk(target.parent_path());
}

void fill(const fs::path& folder, const CheckpointInfo& info, const std::function<void(const fs::path&)>& write) {
  write(folder);
  const Manifest manifest = describe_folder(folder, info);
  for (const Manifest::File& file : manifest.files) sync_to_disk(folder / file.name);
  write_file(folder / kManifestName, to_json(manifest));  // flushes the folder, too
}

// Folders to remove: all but the newest `keep` and, if `keep_finite`, but the newest with finite weights.
std::vector<fs::path> surplus(const std::vector<Checkpoint>& by_step, int keep, bool keep_finite) {
  const auto finite = std::find_if(by_step.rbegin(), by_step.rend(), [](const Checkpoint& c) { return c.info.finite; });
  std::vector<fs::path> folders;
  for (auto one = by_step.rbegin(); one != by_step.rend(); ++one) {
    if (one - by_step.rbegin() >= keep && !(keep_finite && one == finite)) folders.push_back(one->folder);
  }
  return folders;
}

constexpr int kListings = 100;  // a writer that is faster than we are so often does nothing but checkpoints

// Which folder a name stands for.
using Identity = std::pair<dev_t, ino_t>;

Identity identity_of(const fs::path& folder) {
  struct stat status {};
  if (::lstat(folder.c_str(), &status) != 0) return {};
  return {status.st_dev, status.st_ino};
}

struct Look {
  std::optional<Checkpoint> found;
  std::vector<std::string> skipped;
  bool changed = false;  // a folder was taken away or replaced while it was read
};

std::optional<Checkpoint> verified(const fs::path& folder, std::vector<std::string>& skipped) {
  try {
    return CheckpointDirectory::verify(folder);
  } catch (const BackendError& error) {
    skipped.push_back(folder.string() + ": " + error.what());
    return std::nullopt;
  }
}

// Ends at a change, unless `all` are to be looked at.
Look look_for_latest(const fs::path& root, bool all) {
  Look look;
  std::vector<fs::path> folders = entries(root, kCheckpointPrefix);
  std::reverse(folders.begin(), folders.end());
  for (const fs::path& folder : folders) {
    const Identity before = identity_of(folder);
    look.found = verified(folder, look.skipped);
    if (look.found) return look;
    look.changed = before == Identity{} || identity_of(folder) != before;
    if (look.changed && !all) return look;
  }
  return look;
}

}  // namespace

CheckpointDirectory::CheckpointDirectory(fs::path root, CheckpointOptions options)
    : root_(std::move(root)), options_(options) {
  if (root_.empty()) throw UsageError("CheckpointDirectory: the path is empty");
  if (options_.keep < 0)
    throw UsageError("CheckpointOptions: keep is " + std::to_string(options_.keep) + "; it must be 0 or more");
}

CheckpointDirectory::CheckpointDirectory(CheckpointDirectory&& other) noexcept = default;
CheckpointDirectory& CheckpointDirectory::operator=(CheckpointDirectory&& other) noexcept = default;
CheckpointDirectory::~CheckpointDirectory() = default;

std::string CheckpointDirectory::lock() {
  create_folder(root_);
  if (!lock_) lock_ = std::make_unique<DirectoryLock>(root_);
  return lock_->notice();
}

fs::path CheckpointDirectory::save(const CheckpointInfo& info, const std::function<void(const fs::path&)>& write) {
  if (info.step < 0)
    throw UsageError("CheckpointDirectory::save: step is " + std::to_string(info.step) + "; it must be 0 or more");
  create_folder(root_);
  std::optional<DirectoryLock> lock_of_this_call;
  DirectoryLock& lock = lock_ ? *lock_ : lock_of_this_call.emplace(root_);
  lock.require_held();
  for (const fs::path& leftover : entries(root_, kTemporaryPrefix)) remove_folder(leftover);

  const fs::path temporary = make_temporary_folder(root_, kTemporaryPrefix);
  fs::path target = root_ / folder_name(info.step);
  try {
    fill(temporary, info, write);
    lock.require_held();
    move_into_place(temporary, target);
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(temporary, ignored);
    throw;
  }
  if (options_.keep > 0) {
    std::vector<Checkpoint> others = list();
    std::erase_if(others, [&](const Checkpoint& one) { return one.folder == target; });
    for (const fs::path& folder : surplus(others, options_.keep - 1, !info.finite)) retire(folder);
  }
  return target;
}

std::vector<std::string> CheckpointDirectory::differences(const Metadata& saved, const Metadata& settings) {
  std::vector<std::string> lines;
  for (const auto& [name, value] : settings) {
    const auto before = saved.find(name);
    if (before == saved.end() || before->second == value) continue;
    lines.push_back(name + ": " + before->second + " in the checkpoint, " + value + " in this run");
  }
  return lines;
}

std::vector<Checkpoint> CheckpointDirectory::list() const {
  std::vector<Checkpoint> found;
  for (const fs::path& folder : entries(root_, kCheckpointPrefix)) {
    try {
      found.push_back({folder, read_manifest(folder).info});
    } catch (const BackendError&) {
      continue;  // not a complete checkpoint
    }
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const Checkpoint& a, const Checkpoint& b) { return a.info.step < b.info.step; });
  return found;
}

Checkpoint CheckpointDirectory::verify(const fs::path& folder) {
  const Manifest manifest = read_manifest(folder);
  for (const Manifest::File& file : manifest.files) {
    const fs::path path = folder / file.name;
    const std::vector<std::byte> content = read_file(path);
    if (content.size() != file.size) {
      throw BackendError(path.string() + " has " + std::to_string(content.size()) + " bytes, but the manifest says " +
                         std::to_string(file.size));
    }
    if (base::hash64(content) != file.checksum) throw BackendError(path.string() + " does not match its checksum");
  }
  return {folder, manifest.info};
}

// A writer may commit and retire between our listing and our reading: what was listed is then no more, or another.
std::optional<Checkpoint> CheckpointDirectory::latest(std::vector<std::string>* skipped) const {
  Look look;
  for (int listing = 1; listing <= kListings; ++listing) {
    look = look_for_latest(root_, listing == kListings);
    if (look.found || !look.changed) break;
  }
  if (skipped != nullptr) skipped->insert(skipped->end(), look.skipped.begin(), look.skipped.end());
  return look.found;
}

}  // namespace kolo::checkpoint
