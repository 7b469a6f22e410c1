#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <iterator>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/strings.h"
#include "base/system_error.h"
#include "base/unique_fd.h"
#include "kolo/data/dataset.h"
#include "kolo/error.h"

namespace kolo::data {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 3> kDecoded{".jpeg", ".jpg", ".png"};
// The rest of torchvision's IMG_EXTENSIONS.
constexpr std::array<std::string_view, 6> kUnsupported{".bmp", ".pgm", ".ppm", ".tif", ".tiff", ".webp"};
constexpr std::int64_t kUnsupportedPercent = 1;  // of a class
constexpr off_t kMaxBytes = off_t{1} << 31;      // of a file
constexpr std::size_t kNamed = 5;                // classes named in a message

template <std::size_t Count>
bool contains(const std::array<std::string_view, Count>& endings, std::string_view ending) {
  return std::ranges::find(endings, ending) != endings.end();
}

std::string lower_extension(const std::string& name) {
  std::string ending = fs::path(name).extension().string();
  std::ranges::transform(ending, ending.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return ending;
}

// "3 (a, b, c)", "9 (a, b, c, d, e, ...)".
std::string counted_names(const std::vector<std::string>& names) {
  const std::vector<std::string> first(names.begin(), names.begin() + std::min(names.size(), kNamed));
  return std::to_string(names.size()) + " (" + base::join(first, ", ") + (names.size() > kNamed ? ", ...)" : ")");
}

std::string counted_formats(const std::map<std::string, std::int64_t>& unsupported) {
  std::vector<std::string> parts;
  for (const auto& [ending, count] : unsupported) parts.push_back(std::to_string(count) + " " + ending);
  return base::join(parts, ", ");
}

[[noreturn]] void fail(const std::string& path, std::string_view what) {
  base::throw_errno("cannot " + std::string(what) + " " + path);
}

[[noreturn]] void cannot_list(const fs::path& folder, const std::error_code& error) {
  throw UsageError("cannot list " + folder.string() + ": " + error.message() +
                   "; images must be in class folders such as train/<class>/*.JPEG");
}

// Of what a link leads to; none or not_found where that cannot be told. Most file systems say it with the name, so that
// a million files are not examined one by one.
fs::file_type type_of(const fs::directory_entry& entry) {
  std::error_code error;
  if (!entry.is_symlink(error)) {
    if (entry.is_regular_file(error)) return fs::file_type::regular;
    if (entry.is_directory(error)) return fs::file_type::directory;
  }
  return entry.status(error).type();
}

// Calls use(entry, name) for all but names that begin with a dot, in no order.
template <class Use>
void for_each_entry(const fs::path& folder, const Use& use) {
  std::error_code error;
  fs::directory_iterator entry(folder, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    std::string name = entry->path().filename().string();
    if (name.front() != '.') use(*entry, std::move(name));
  }
  if (error) cannot_list(folder, error);
}

std::vector<std::string> class_folders(const fs::path& root, FolderListing& listing) {
  std::vector<std::string> names;
  for_each_entry(root, [&](const fs::directory_entry& entry, std::string name) {
    const fs::file_type type = type_of(entry);
    if (type == fs::file_type::directory) {
      names.push_back(std::move(name));
    } else if (type == fs::file_type::not_found || type == fs::file_type::none) {
      throw UsageError("cannot follow the link " + (root / name).string() +
                       ": it may be a class folder. Is a disk not mounted? Mount the disk or remove the link");
    } else {
      ++listing.ignored;
    }
  });
  std::ranges::sort(names);
  return names;
}

// The images of one class folder, in torchvision's order: sub-folders by their paths as texts, names inside them.
class ClassLister {
 public:
  explicit ClassLister(fs::path folder) : folder_(std::move(folder)) { list("", folder_); }

  [[nodiscard]] std::vector<std::string> images() {
    std::vector<std::string> all;
    for (auto& [below, names] : folders_) {
      std::ranges::sort(names);
      for (const std::string& name : names) all.push_back(below.empty() ? name : below + "/" + name);
    }
    return all;
  }

  std::int64_t ignored = 0;
  std::map<std::string, std::int64_t> unsupported;

 private:
  using Identity = std::pair<dev_t, ino_t>;

  void list(const std::string& below, const fs::path& folder) {
    const Identity identity = identity_of(folder);
    if (std::ranges::find(around_, identity) != around_.end()) {
      throw UsageError("cannot list " + folder.string() + ": the link leads back to a parent folder." +
                       " Remove the link");
    }
    around_.push_back(identity);
    std::vector<std::string> folders;
    std::vector<std::string>& names = folders_[below];
    for_each_entry(folder, [&](const fs::directory_entry& entry, std::string name) {
      const fs::file_type type = type_of(entry);
      if (type == fs::file_type::directory) {
        folders.push_back(std::move(name));
      } else {
        add(type, std::move(name), names);
      }
    });
    for (const std::string& name : folders) list(below.empty() ? name : below + "/" + name, folder / name);
    around_.pop_back();
  }

  // A link that leads nowhere is an image that cannot be read, which shows when it is.
  void add(fs::file_type type, std::string name, std::vector<std::string>& images) {
    const std::string ending = lower_extension(name);
    const bool may_be_read =
        type == fs::file_type::regular || type == fs::file_type::not_found || type == fs::file_type::none;
    if (may_be_read && contains(kDecoded, ending)) {
      images.push_back(std::move(name));
    } else if (may_be_read && contains(kUnsupported, ending)) {
      ++unsupported[ending];
    } else {
      ++ignored;
    }
  }

  static Identity identity_of(const fs::path& folder) {
    struct stat status {};
    if (::stat(folder.c_str(), &status) != 0) cannot_list(folder, {errno, std::generic_category()});
    return {status.st_dev, status.st_ino};
  }

  fs::path folder_;
  std::map<std::string, std::vector<std::string>> folders_;  // names by the folder's path below the class
  std::vector<Identity> around_;                             // the folders that are being listed
};

void check_formats(const fs::path& folder, std::int64_t images,
                   const std::map<std::string, std::int64_t>& unsupported) {
  std::int64_t count = 0;
  for (const auto& [ending, files] : unsupported) count += files;
  if (count * 100 <= kUnsupportedPercent * (count + images)) return;
  throw UsageError(folder.string() + ": " + std::to_string(count) + " of " + std::to_string(count + images) +
                   " image files have a format that kolo cannot decode (" + counted_formats(unsupported) +
                   "), more than " + std::to_string(kUnsupportedPercent) +
                   " % of the class. Convert them to JPEG or PNG, or remove them");
}

void check_classes(const fs::path& root, const std::vector<std::string>& found, std::vector<std::string> expected) {
  std::ranges::sort(expected);
  std::vector<std::string> missing, additional;
  std::ranges::set_difference(expected, found, std::back_inserter(missing));
  std::ranges::set_difference(found, expected, std::back_inserter(additional));
  if (missing.empty() && additional.empty()) return;
  std::string text = root.string() + " must have the " + std::to_string(expected.size()) + " training classes, but";
  if (!missing.empty()) text += " lacks " + counted_names(missing);
  if (!additional.empty())
    text += std::string(missing.empty() ? "" : " and") + " has others: " + counted_names(additional);
  throw UsageError(text + ". Create, rename or remove class folders");
}

}  // namespace

ImageFolder::ImageFolder(const fs::path& root) : root_(root) {
  class_names_ = class_folders(root, listing_);
  list_classes();
}

ImageFolder::ImageFolder(const fs::path& root, const std::vector<std::string>& class_names) : root_(root) {
  check_classes(root, class_folders(root, listing_), class_names);
  class_names_ = class_names;
  list_classes();
}

void ImageFolder::list_classes() {
  if (class_names_.empty())
    throw UsageError(root_.string() + " has no class folders: expected " + root_.string() + "/<class>/*.JPEG");
  for (std::size_t label = 0; label < class_names_.size(); ++label) {
    ClassLister lister(root_ / class_names_[label]);
    std::vector<std::string> images = lister.images();
    check_formats(root_ / class_names_[label], static_cast<std::int64_t>(images.size()), lister.unsupported);
    if (images.empty()) listing_.empty_classes.push_back(class_names_[label]);
    for (std::string& name : images) files_.push_back({std::move(name), static_cast<std::int32_t>(label)});
    listing_.ignored += lister.ignored;
    for (const auto& [ending, count] : lister.unsupported) listing_.unsupported[ending] += count;
  }
  if (files_.empty()) throw UsageError(root_.string() + " has no .JPEG, .jpg or .png file in its folders");
}

std::vector<std::string> describe(const FolderListing& listing, const std::string& root) {
  std::vector<std::string> lines;
  if (!listing.empty_classes.empty()) {
    lines.push_back("warning: " + root +
                    ": classes without a JPEG or PNG file: " + counted_names(listing.empty_classes));
  }
  if (!listing.unsupported.empty()) {
    lines.push_back("warning: " + root + ": image files in a format that kolo cannot decode are not used: " +
                    counted_formats(listing.unsupported));
  }
  if (listing.ignored > 0) {
    lines.push_back(root + ": " + base::counted(static_cast<std::size_t>(listing.ignored), "file") +
                    " ignored: no image extension, not a regular file, or outside the class folders");
  }
  return lines;
}

std::string ImageFolder::class_name(std::int64_t label) const {
  return class_names_.at(static_cast<std::size_t>(label));
}

std::int64_t ImageFolder::label(std::int64_t index) const { return files_.at(static_cast<std::size_t>(index)).label; }

std::string ImageFolder::name(std::int64_t index) const {
  const File& file = files_.at(static_cast<std::size_t>(index));
  return class_names_[static_cast<std::size_t>(file.label)] + "/" + file.name;
}

std::span<const std::byte> ImageFolder::bytes(std::int64_t index, std::vector<std::byte>& scratch) const {
  const std::string path = (root_ / name(index)).string();
  // A name may have become another kind of file: opening a FIFO must not wait for its writer.
  base::UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) fail(path, "open");
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) fail(path, "examine");
  if (!S_ISREG(status.st_mode)) throw BackendError("cannot read " + path + ": it is not a regular file");
  if (status.st_size > kMaxBytes) throw BackendError("cannot read " + path + ": it is larger than 2 GiB");
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
