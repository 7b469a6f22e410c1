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
#include <cctype>
#include <cinttypes>
#include <cstdio>
#include <set>
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

// As folder_name() makes it. A copy under another name, such as checkpoint-best, belongs to the user.
bool is_folder_name(const fs::path& path) {
  const std::string name = path.filename().string();
  return starts_with(path, kCheckpointPrefix) && name.size() > kCheckpointPrefix.size() &&
         std::all_of(name.begin() + kCheckpointPrefix.size(), name.end(),
                     [](unsigned char c) { return std::isdigit(c); });
}

// Names in a folder, sorted; empty when there is no such folder.
std::vector<fs::path> entries(const fs::path& root, std::string_view prefix) {
  std::vector<fs::path> paths;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(root, error)) {
    if (prefix == kCheckpointPrefix ? is_folder_name(entry.path()) : starts_with(entry.path(), prefix)) {
      paths.push_back(entry.path());
    }
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

std::int64_t seconds_since_1970() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::seconds>(now).count();
}

void fill(const fs::path& folder, const CheckpointInfo& info, const std::function<void(const fs::path&)>& write) {
  write(folder);
  Manifest manifest = describe_folder(folder, info);
  manifest.info.time = seconds_since_1970();
  for (const WrittenFile& file : manifest.files) sync_to_disk(folder / file.name);
  write_file(folder / kManifestName, to_json(manifest));  // flushes the folder, too
}

// The first checkpoint of each period.
std::set<fs::path> firsts_of_periods(const std::vector<Checkpoint>& by_step, std::chrono::seconds period) {
  std::set<fs::path> firsts;
  std::set<std::int64_t> periods;
  if (period.count() == 0) return firsts;
  for (const Checkpoint& one : by_step) {
    if (one.info.time != 0 && periods.insert(one.info.time / period.count()).second) firsts.insert(one.folder);
  }
  return firsts;
}

// Folders to remove: all but `newest`, `keep` - 1 of the highest steps, the first of each period and, if `newest` is
// not finite, the finite one of the highest step.
std::vector<fs::path> surplus(const std::vector<Checkpoint>& by_step, const fs::path& newest,
                              const CheckpointOptions& options) {
  const auto firsts = firsts_of_periods(by_step, options.keep_one_per);
  int kept = 1;
  bool finite = false;
  std::vector<fs::path> folders;
  for (const Checkpoint& one : by_step) finite |= one.folder == newest && one.info.finite;
  for (auto one = by_step.rbegin(); one != by_step.rend(); ++one) {
    if (one->folder == newest) continue;
    const bool last_finite = !finite && one->info.finite;
    finite |= one->info.finite;
    if (kept++ >= options.keep && !last_finite && !firsts.contains(one->folder)) folders.push_back(one->folder);
  }
  return folders;
}

// Letters, digits and '-'.
void require_id(const std::string& id) {
  const auto allowed = [](unsigned char c) { return std::isalnum(c) != 0 || c == '-'; };
  if (!id.empty() && std::all_of(id.begin(), id.end(), allowed)) return;
  throw UsageError("CheckpointDirectory: the id '" + id + "' must consist of letters, digits and '-'");
}

void require_size(const fs::path& file, std::uint64_t size) {
  std::error_code error;
  const std::uintmax_t found = fs::file_size(file, error);
  if (error) {
    throw BackendError("cannot examine " + file.string() + ": " + error.message() +
                       ". Is the folder the same file system on all hosts?");
  }
  if (found == size) return;
  throw BackendError(file.string() + " has " + std::to_string(found) + " bytes, but " + std::to_string(size) +
                     " were written");
}

void require_step(std::int64_t step, const std::string& call) {
  if (step >= 0) return;
  throw UsageError("CheckpointDirectory::" + call + ": step is " + std::to_string(step) + "; it must be 0 or more");
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
  if (options_.keep_one_per.count() < 0)
    throw UsageError("CheckpointOptions: keep_one_per is " + std::to_string(options_.keep_one_per.count()) +
                     " s; it must be 0 or more");
}

CheckpointDirectory::CheckpointDirectory(CheckpointDirectory&& other) noexcept = default;
CheckpointDirectory& CheckpointDirectory::operator=(CheckpointDirectory&& other) noexcept = default;
CheckpointDirectory::~CheckpointDirectory() = default;

std::string CheckpointDirectory::lock(std::chrono::seconds wait) {
  create_folder(root_);
  if (!lock_) {
    lock_ = std::make_unique<DirectoryLock>(root_, wait);
    for (const fs::path& leftover : entries(root_, kTemporaryPrefix)) remove_folder(leftover);
  }
  return lock_->notice();
}

fs::path CheckpointDirectory::part_folder(const std::string& id) const {
  require_id(id);
  return root_ / (std::string(kTemporaryPrefix) + id);
}

fs::path CheckpointDirectory::create_part_folder(const std::string& id) {
  fs::path folder = part_folder(id);
  create_folder(folder);
  return folder;
}

void CheckpointDirectory::discard(const std::string& id) noexcept {
  try {
    remove_folder(part_folder(id));
  } catch (const std::exception&) {  // no memory, or no such id: there is nothing to delete
  }
}

fs::path CheckpointDirectory::commit(const CheckpointInfo& info, const std::string& id,
                                     std::span<const WrittenFile> files) {
  require_step(info.step, "commit");
  if (!lock_) throw UsageError("CheckpointDirectory::commit: call lock() first");
  const fs::path temporary = part_folder(id);
  Manifest manifest{info, {files.begin(), files.end()}};
  manifest.info.time = seconds_since_1970();
  std::sort(manifest.files.begin(), manifest.files.end(),
            [](const WrittenFile& a, const WrittenFile& b) { return a.name < b.name; });
  for (const WrittenFile& file : manifest.files) require_size(temporary / file.name, file.size);
  write_file(temporary / kManifestName, to_json(manifest));  // flushes the folder, too
  lock_->require_held();
  fs::path target = folder_of(info.step);
  move_into_place(temporary, target);
  return target;
}

void CheckpointDirectory::prune(const fs::path& newest) {
  if (options_.keep == 0) return;
  for (const fs::path& folder : surplus(list(), newest, options_)) retire(folder);
}

fs::path CheckpointDirectory::save(const CheckpointInfo& info, const std::function<void(const fs::path&)>& write) {
  require_step(info.step, "save");
  create_folder(root_);
  std::optional<DirectoryLock> lock_of_this_call;
  DirectoryLock& lock = lock_ ? *lock_ : lock_of_this_call.emplace(root_);
  lock.require_held();
  for (const fs::path& leftover : entries(root_, kTemporaryPrefix)) remove_folder(leftover);

  const fs::path temporary = make_temporary_folder(root_, kTemporaryPrefix);
  fs::path target = folder_of(info.step);
  try {
    fill(temporary, info, write);
    lock.require_held();
    move_into_place(temporary, target);
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(temporary, ignored);
    throw;
  }
  prune(target);
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

void CheckpointDirectory::remove(const fs::path& folder) {
  if (!retire(folder)) throw_errno("delete", folder);
}

std::vector<Checkpoint> CheckpointDirectory::list(std::vector<std::string>* skipped) const {
  std::vector<Checkpoint> found;
  for (const fs::path& folder : entries(root_, kCheckpointPrefix)) {
    try {
      Manifest manifest = read_manifest(folder);
      found.push_back({folder, std::move(manifest.info), std::move(manifest.files)});
    } catch (const BackendError& error) {
      if (skipped != nullptr) skipped->push_back(folder.filename().string() + ": " + error.what());
    }
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const Checkpoint& a, const Checkpoint& b) { return a.info.step < b.info.step; });
  return found;
}

fs::path CheckpointDirectory::folder_of(std::int64_t step) const { return root_ / folder_name(step); }

Checkpoint CheckpointDirectory::verify(const fs::path& folder) {
  Manifest manifest = read_manifest(folder);
  for (const WrittenFile& file : manifest.files) (void)read(folder, file);
  return {folder, std::move(manifest.info), std::move(manifest.files)};
}

std::vector<std::byte> CheckpointDirectory::read(const fs::path& folder, const WrittenFile& file) {
  const fs::path path = folder / file.name;
  std::vector<std::byte> content = read_file(path);
  if (content.size() != file.size) {
    throw BackendError(path.string() + " has " + std::to_string(content.size()) + " bytes, but the manifest says " +
                       std::to_string(file.size));
  }
  if (base::hash64(content) != file.checksum) throw BackendError(path.string() + " does not match its checksum");
  return content;
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
