#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>
#include <system_error>

#include "base/system_error.h"
#include "base/unique_fd.h"
#include "kolo/data/dataset.h"
#include "kolo/error.h"

namespace kolo::data {
namespace {

namespace fs = std::filesystem;

bool is_image_name(const fs::path& path) {
  constexpr std::array<std::string_view, 6> kEndings{".JPEG", ".JPG", ".jpeg", ".jpg", ".PNG", ".png"};
  const std::string ending = path.extension().string();
  return std::find(kEndings.begin(), kEndings.end(), ending) != kEndings.end();
}

[[noreturn]] void fail(const std::string& path, std::string_view what) {
  base::throw_errno("cannot " + std::string(what) + " " + path);
}

std::vector<std::string> sorted_names(const fs::path& folder, bool (*accept)(const fs::directory_entry&)) {
  std::vector<std::string> names;
  std::error_code error;
  fs::directory_iterator entries(folder, error);
  if (error) {
    throw UsageError("cannot list " + folder.string() + ": " + error.message() +
                     "; images are expected in folders of classes, as train/<class>/*.JPEG");
  }
  for (const fs::directory_entry& entry : entries) {
    if (accept(entry)) names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool accept_class(const fs::directory_entry& entry) {
  std::error_code error;
  return entry.is_directory(error) && entry.path().filename().string().front() != '.';
}

// Whether it can be read shows when it is: a million files are not examined one by one.
bool accept_file(const fs::directory_entry& entry) { return is_image_name(entry.path()); }

}  // namespace

ImageFolder::ImageFolder(const fs::path& root) : root_(root) {
  class_names_ = sorted_names(root, accept_class);
  if (class_names_.empty())
    throw UsageError(root.string() + " has no folders: expected " + root.string() + "/<class>/*.JPEG");
  for (std::size_t label = 0; label < class_names_.size(); ++label) {
    for (std::string& name : sorted_names(root / class_names_[label], accept_file)) {
      files_.push_back({std::move(name), static_cast<std::int32_t>(label)});
    }
  }
  if (files_.empty()) throw UsageError(root.string() + " has no .JPEG, .jpg or .png file in its folders");
}

std::int64_t ImageFolder::label(std::int64_t index) const { return files_.at(static_cast<std::size_t>(index)).label; }

std::string ImageFolder::name(std::int64_t index) const {
  const File& file = files_.at(static_cast<std::size_t>(index));
  return class_names_[static_cast<std::size_t>(file.label)] + "/" + file.name;
}

std::span<const std::byte> ImageFolder::bytes(std::int64_t index, std::vector<std::byte>& scratch) const {
  const std::string path = (root_ / name(index)).string();
  base::UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) fail(path, "open");
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) fail(path, "examine");
  if (!S_ISREG(status.st_mode)) throw BackendError("cannot read " + path + ": it is not a file");
  const auto size = static_cast<std::size_t>(status.st_size);
  if (scratch.size() < size) scratch.resize(size);
  std::size_t done = 0;
  while (done < size) {
    const ssize_t got = ::read(fd.get(), scratch.data() + done, size - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(path, "read");
    if (got == 0) break;  // it became shorter: the decoder will find it truncated
    done += static_cast<std::size_t>(got);
  }
  return {scratch.data(), done};
}

}  // namespace kolo::data
