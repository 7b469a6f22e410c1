#pragma once
// Where encoded images come from. A Dataset hands out bytes and labels by index; everything that decodes, augments and
// batches them is in loader.h.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kolo/export.h"

namespace KOLO_EXPORT kolo {
namespace data {

// Samples numbered 0..size()-1. All calls are const and come from several loader threads at once.
class Dataset {
 public:
  virtual ~Dataset() = default;
  [[nodiscard]] virtual std::int64_t size() const = 0;
  [[nodiscard]] virtual std::int64_t classes() const = 0;
  // The encoded image. The span is valid as long as `scratch` is not changed and the Dataset lives; a source that
  // holds its samples in memory returns them in place and leaves scratch alone. A sample that cannot be read is a
  // BackendError: the Loader treats it as a broken file.
  virtual std::span<const std::byte> bytes(std::int64_t index, std::vector<std::byte>& scratch) const = 0;
  [[nodiscard]] virtual std::int64_t label(std::int64_t index) const = 0;
  // For reports, e.g. the file's path below the root.
  [[nodiscard]] virtual std::string name(std::int64_t index) const = 0;
  // For reports; the label as text unless the source has names. 0 <= label < classes().
  [[nodiscard]] virtual std::string class_name(std::int64_t label) const { return std::to_string(label); }
};

// What an ImageFolder does not use. Names that begin with a dot are not counted.
struct FolderListing {
  // Entries without an image extension, that are no regular file, or that lie outside of the class folders.
  std::int64_t ignored = 0;
  std::map<std::string, std::int64_t> unsupported;  // image files that kolo cannot decode, by lower-case extension
  std::vector<std::string> empty_classes;           // class folders without a JPEG or PNG file
};

// root/<class>/, read as torchvision's ImageFolder reads it: files that end in .jpg, .jpeg or .png in any case, from
// all sub-folders of the class, through symbolic links. Names that begin with a dot are not read. A class's label is
// its folder's place in the byte-wise sorted list of all folders. Samples are sorted by class, then by sub-folder, then
// by name. So every rank that sees the same tree numbers it alike. The content of a file is checked when it is read.
class ImageFolder final : public Dataset {
 public:
  // Throws UsageError if root or a folder below it cannot be listed, has a link that leads back to a folder around it,
  // has no class folders or no image at all, or if more than 1 % of a class's image files are of a format that kolo
  // cannot decode (.bmp, .pgm, .ppm, .tif, .tiff, .webp).
  explicit ImageFolder(const std::filesystem::path& root);
  // The same, with the labels of `class_names`, e.g. those of the training images. Throws UsageError if root lacks one
  // of these folders, or has another one.
  ImageFolder(const std::filesystem::path& root, const std::vector<std::string>& class_names);

  [[nodiscard]] std::int64_t size() const override { return static_cast<std::int64_t>(files_.size()); }
  [[nodiscard]] std::int64_t classes() const override { return static_cast<std::int64_t>(class_names_.size()); }
  std::span<const std::byte> bytes(std::int64_t index, std::vector<std::byte>& scratch) const override;
  [[nodiscard]] std::int64_t label(std::int64_t index) const override;
  [[nodiscard]] std::string name(std::int64_t index) const override;
  [[nodiscard]] std::string class_name(std::int64_t label) const override;
  [[nodiscard]] const std::vector<std::string>& class_names() const noexcept { return class_names_; }
  [[nodiscard]] const FolderListing& listing() const noexcept { return listing_; }

 private:
  struct File {
    std::string name;  // below the class's folder
    std::int32_t label;
  };
  // REQUIRES: class_names_
  void list_classes();
  std::filesystem::path root_;
  std::vector<std::string> class_names_;
  std::vector<File> files_;
  FolderListing listing_;
};

// A line for each kind of thing that a listing leaves out; warnings first, and these begin with "warning: ". `root`
// names the folder.
[[nodiscard]] std::vector<std::string> describe(const FolderListing& listing, const std::string& root);

struct SyntheticJpegOptions {
  std::int64_t size = 1'281'167;  // samples it claims to have
  std::int64_t classes = 1000;
  int width = 500;  // of the encoded images; ImageNet's are 500 x 375 more often than anything else
  int height = 375;
  int distinct = 32;  // different images, encoded once when it is made
  std::uint64_t seed = 0;
};

// The same few JPEGs in memory over and over: the cost of decoding without that of storage.
class SyntheticJpegs final : public Dataset {
 public:
  explicit SyntheticJpegs(const SyntheticJpegOptions& options);

  [[nodiscard]] std::int64_t size() const override { return options_.size; }
  [[nodiscard]] std::int64_t classes() const override { return options_.classes; }
  std::span<const std::byte> bytes(std::int64_t index, std::vector<std::byte>& scratch) const override;
  [[nodiscard]] std::int64_t label(std::int64_t index) const override;
  [[nodiscard]] std::string name(std::int64_t index) const override;

 private:
  SyntheticJpegOptions options_;
  std::vector<std::vector<std::byte>> images_;
};

}  // namespace data
}  // namespace kolo
