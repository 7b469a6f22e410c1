#pragma once
// Where encoded images come from. A Dataset hands out bytes and labels by index; everything that decodes, augments and
// batches them is in loader.h.
#include <cstddef>
#include <cstdint>
#include <filesystem>
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
};

// root/<class>/*.{JPEG,JPG,jpeg,jpg,PNG,png}. A class's label is its folder's place in the byte-wise sorted list of
// all folders; files are sorted by name inside it. So every rank that sees the same tree numbers it alike.
class ImageFolder final : public Dataset {
 public:
  // UsageError when root is not a folder, has no class folders or no image at all.
  explicit ImageFolder(const std::filesystem::path& root);

  [[nodiscard]] std::int64_t size() const override { return static_cast<std::int64_t>(files_.size()); }
  [[nodiscard]] std::int64_t classes() const override { return static_cast<std::int64_t>(class_names_.size()); }
  std::span<const std::byte> bytes(std::int64_t index, std::vector<std::byte>& scratch) const override;
  [[nodiscard]] std::int64_t label(std::int64_t index) const override;
  [[nodiscard]] std::string name(std::int64_t index) const override;
  [[nodiscard]] const std::vector<std::string>& class_names() const noexcept { return class_names_; }

 private:
  struct File {
    std::string name;
    std::int32_t label;
  };
  std::filesystem::path root_;
  std::vector<std::string> class_names_;
  std::vector<File> files_;
};

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
