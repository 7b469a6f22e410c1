#pragma once
// Sources of encoded images. A Dataset returns bytes and labels by index; kolo/data/loader.h decodes and batches them.
//
//   const auto dataset = std::make_shared<kolo::data::ImageFolder>("images/train");
//   std::printf("%lld images of %lld classes\n", (long long)dataset->size(), (long long)dataset->classes());
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kolo/detail/export.h"

namespace KOLO_EXPORT kolo {
namespace data {

// Samples with the indices 0 to size() - 1. Thread-safe: several loader threads call it at once.
class Dataset {
 public:
  virtual ~Dataset() = default;
  [[nodiscard]] virtual std::int64_t size() const = 0;
  [[nodiscard]] virtual std::int64_t classes() const = 0;
  // The encoded image. The span is valid while `scratch` is unchanged and the Dataset lives. A source with its samples
  // in memory returns a view of them and does not use `scratch`. Throws BackendError for a sample that cannot be read:
  // the Loader treats it as a broken file.
  virtual std::span<const std::byte> bytes(std::int64_t index, std::vector<std::byte>& scratch) const = 0;
  [[nodiscard]] virtual std::int64_t label(std::int64_t index) const = 0;
  // For reports, e.g. the file's path below the root.
  [[nodiscard]] virtual std::string name(std::int64_t index) const = 0;
  // For reports; the label as text if the source has no names. REQUIRES: 0 <= label < classes().
  [[nodiscard]] virtual std::string class_name(std::int64_t label) const { return std::to_string(label); }
};

// Entries that an ImageFolder does not use. Names that begin with a dot are not counted.
struct FolderListing {
  // Files without an image extension, files outside the class folders, and entries that are not regular files.
  std::int64_t ignored = 0;
  std::map<std::string, std::int64_t> unsupported;  // image files that kolo cannot decode, by lower-case extension
  std::vector<std::string> empty_classes;           // class folders without a JPEG or PNG file
};

// Images below root/<class>/. The files end in .jpg, .jpeg or .png in any case. Sub-folders and symbolic links are
// followed; names that begin with a dot are skipped. A label is the position of the class folder in byte-wise order.
// Samples are sorted by class, then by sub-folder, then by name, as in torchvision. Ranks with the same tree therefore
// have the same indices. The content of a file is checked when the file is read.
class ImageFolder final : public Dataset {
 public:
  // Throws UsageError if
  // - root or a folder below root cannot be listed,
  // - a symbolic link forms a cycle,
  // - root has no class folder or no image,
  // - more than 1 % of the image files of a class are .bmp, .pgm, .ppm, .tif, .tiff or .webp files.
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
  void list_classes();
  std::filesystem::path root_;
  std::vector<std::string> class_names_;
  std::vector<File> files_;
  FolderListing listing_;
};

// One line for each non-empty field of `listing`. Warnings come first and begin with "warning: ". `root` is the folder
// name in the lines.
[[nodiscard]] std::vector<std::string> describe(const FolderListing& listing, const std::string& root);

struct SyntheticJpegOptions {
  std::int64_t size = 1'281'167;  // samples that size() returns
  std::int64_t classes = 1000;
  int width = 500;  // pixels of the encoded images; 500 x 375 is the most frequent size in ImageNet
  int height = 375;
  int distinct = 32;  // different images, encoded in the constructor
  std::uint64_t seed = 0;
};

// Returns JPEGs from memory, to measure decoding without storage.
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
