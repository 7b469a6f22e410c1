#include "data.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Functions.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <optional>
#include <sstream>
#include <utility>

#include "kolo/data/fingerprint.h"
#include "kolo/data/normalize_images.h"
#include "kolo/distributed_sampler.h"
#include "kolo/error.h"
#include "ranks.h"

namespace imagenet {
namespace {

namespace data = kolo::data;
namespace fs = std::filesystem;

// --- data sets ----------------------------------------------------------------------------------------------------

std::int64_t synthetic_images(const Options& options, Part part) {
  if (part == Part::train) return options.synthetic_images;
  return std::clamp<std::int64_t>(options.synthetic_images / 10, 1, 50000);
}

DatasetPtr synthetic_jpegs(const Options& options, Part part) {
  return std::make_shared<data::SyntheticJpegs>(data::SyntheticJpegOptions{
      .size = synthetic_images(options, part), .classes = options.classes, .seed = options.seed});
}

std::string size_of(const data::Dataset* dataset) {
  if (dataset == nullptr) return "none";
  return std::to_string(dataset->size()) + " samples of " + std::to_string(dataset->classes()) + " classes";
}

// One line for each class and each sample. Lines end with NUL, because names may contain newlines.
std::string lines_of(const data::Dataset* dataset) {
  std::string lines;
  if (dataset == nullptr) return lines;
  for (std::int64_t label = 0; label < dataset->classes(); ++label) {
    lines += "class " + std::to_string(label) + " is '" + dataset->class_name(label) + "'" + '\0';
  }
  for (std::int64_t index = 0; index < dataset->size(); ++index) {
    lines += "sample " + std::to_string(index) + " is '" + dataset->name(index) + "' of class '" +
             dataset->class_name(dataset->label(index)) + "'" + '\0';
  }
  return lines;
}

// "sample 3 is 'a' on rank 0, sample 3 is 'b'"; "" if there is no difference.
std::string first_difference(const std::string& first, const std::string& mine) {
  if (first == mine) return {};
  std::istringstream left(first), right(mine);
  std::string line_of_first, line;
  while (line_of_first == line) {
    for (auto [in, out] : {std::pair(&left, &line_of_first), std::pair(&right, &line)}) {
      if (!std::getline(*in, *out, '\0')) *out = "no further class or sample";
    }
  }
  return line_of_first + " on rank 0, " + line;
}

// Throws on all ranks if the data sets differ. All names are exchanged only if the fingerprints differ. Returns the
// fingerprint, zeros if there is no data set.
data::Fingerprint compare(kolo::Context& context, const std::string& part, const data::Dataset* dataset) {
  std::string mine;
  data::Fingerprint print;
  if (dataset != nullptr) {
    print = data::fingerprint(*dataset);
    for (const std::uint64_t number : {static_cast<std::uint64_t>(print.classes), print.class_names,
                                       static_cast<std::uint64_t>(print.samples), print.sample_names}) {
      mine += std::to_string(number) + " ";
    }
  }
  const auto prints = gather(context, mine);
  const auto other = std::ranges::find_if(prints, [&](const std::string& theirs) { return theirs != prints[0]; });
  if (other == prints.end()) return print;
  const auto rank = static_cast<std::size_t>(other - prints.begin());
  const auto sizes = gather(context, size_of(dataset));
  const std::string first = from_rank_0(context, [&] { return lines_of(dataset); });
  const auto differences = gather(context, first_difference(first, lines_of(dataset)));
  const std::string number = std::to_string(rank);
  throw kolo::MismatchError("data sets differ between ranks: " + part + " has " + sizes[0] + " on rank 0, " +
                            sizes[rank] + " on rank " + number + ". First difference: " + differences[rank] +
                            " on rank " + number + ". All hosts need the same files under --data");
}

// An error of one rank is thrown on all ranks.
std::pair<DatasetPtr, data::Fingerprint> open(kolo::Context& context, const std::string& part,
                                              const std::function<DatasetPtr()>& make) {
  DatasetPtr dataset;
  std::string failure;
  try {
    dataset = make();
  } catch (const std::exception& error) {
    failure = error.what();
  }
  const std::string failures = summary_of(gather(context, failure));
  if (!failures.empty()) throw kolo::UsageError(failures);
  const data::Fingerprint print = compare(context, part, dataset.get());
  return {std::move(dataset), print};
}

}  // namespace

Datasets open_datasets(kolo::Context& context, const Options& options) {
  Datasets sets;
  if (options.data_kind == DataKind::synthetic_jpeg) {
    sets.train = synthetic_jpegs(options, Part::train);
    sets.validation = synthetic_jpegs(options, Part::validation);
  }
  if (options.data_kind != DataKind::folder) return sets;
  const auto add_notes = [&](const data::ImageFolder& folder, const std::string& part) {
    for (const auto& line : data::describe(folder.listing(), part)) sets.notes.push_back(line);
  };
  std::vector<std::string> class_names;
  const auto [train, print] = open(context, "train/", [&] {
    const auto folder = std::make_shared<data::ImageFolder>(fs::path(options.data) / "train");
    add_notes(*folder, "train/");
    class_names = folder->class_names();
    return folder;
  });
  sets.train = train;
  sets.fingerprint = {{"class_names", std::to_string(print.class_names)},
                      {"samples", std::to_string(print.samples)},
                      {"sample_names", std::to_string(print.sample_names)}};
  const auto open_validation = [&]() -> DatasetPtr {
    const fs::path val = fs::path(options.data) / "val";
    if (fs::symlink_status(val).type() == fs::file_type::not_found) return nullptr;
    const auto folder = std::make_shared<data::ImageFolder>(val, class_names);
    add_notes(*folder, "val/");
    return folder;
  };
  sets.validation = open(context, "val/", open_validation).first;
  return sets;
}

// --- batches ------------------------------------------------------------------------------------------------------

namespace {

// Base of the sources in CPU memory. Computes the share of this rank.
class RankSource : public BatchSource {
 public:
  RankSource(std::int64_t total, const Options& options, const kolo::Placement& placement, Part part)
      : options_(options),
        placement_(placement),
        part_(part),
        total_(total),
        batch_(part == Part::train ? options.batch : options.val_batch) {
    begin_share(0, 0);
  }
  [[nodiscard]] std::int64_t steps() const override { return (images_ + batch_ - 1) / batch_; }

 protected:
  // Sets images_ for an epoch that begins at batch `first` after `done` images of all ranks.
  void begin_share(std::int64_t first, std::int64_t done) {
    if (part_ == Part::train) {
      images_ = training_images(first, done);
    } else {
      images_ = share_begin(placement_.rank + 1) - share_begin(placement_.rank);
    }
  }
  // Validation: the first image of a rank.
  [[nodiscard]] std::int64_t share_begin(int rank) const { return total_ * rank / placement_.size; }

  Options options_;
  kolo::Placement placement_;
  Part part_;
  std::int64_t total_;  // images of all ranks
  std::int64_t batch_;
  std::int64_t images_ = 0;  // of this rank in the epoch

 private:
  [[nodiscard]] std::int64_t training_images(std::int64_t first, std::int64_t done) const {
    const std::int64_t global_batch = batch_ * placement_.size;
    if (total_ < global_batch) {
      throw kolo::UsageError(std::to_string(total_) + " training images are too few: one step needs " +
                             std::to_string(global_batch) + " (--batch times ranks). Lower --batch or use fewer ranks");
    }
    const std::int64_t position = done + first * global_batch;
    if (position > total_) {
      throw kolo::UsageError("--resume: the checkpoint is at image " + std::to_string(position) +
                             " of its epoch, but --data has only " + std::to_string(total_) +
                             " images. Was the checkpoint written with another dataset?");
    }
    if (done == 0) return total_ / global_batch * batch_;
    // Equal shares, with padding. BatchNorm has no variance of one image, so the last batch has at least two.
    const std::int64_t each = (total_ - done + placement_.size - 1) / placement_.size;
    return each + (batch_ > 1 && each % batch_ == 1 ? 1 : 0);
  }
};

// Batches of a data set through kolo's loader.
class LoaderSource : public RankSource {
 public:
  LoaderSource(DatasetPtr dataset, const Options& options, const kolo::Placement& placement, Part part,
               const c10::Device& device)
      : RankSource(dataset->size(), options, placement, part),
        as_bytes_(!device.is_cpu()),
        dataset_(std::move(dataset)),
        loader_(dataset_, loader_options()) {}

  [[nodiscard]] int classes() const override { return static_cast<int>(dataset_->classes()); }

  void begin(std::int64_t epoch, std::int64_t first, std::int64_t done) override {
    begin_share(first, done);
    loader_.start_epoch(epoch, part_ == Part::train ? shuffled(epoch, first, done) : in_order());
  }

  bool next(Batch& batch) override {
    const auto loaded = loader_.next();
    if (!loaded) return false;
    const std::int64_t n = loaded->count, s = options_.image_size;
    // The tensors own the loaded batch. Its memory returns to the loader with the last of them.
    const auto view = [&](const void* data, at::IntArrayRef sizes, at::ScalarType type) {
      return at::from_blob(
          const_cast<void*>(data), sizes, [loaded](void*) {}, type);
    };
    const void* const pixels = as_bytes_ ? static_cast<const void*>(loaded->bytes) : loaded->images;
    const auto type = as_bytes_ ? at::kByte : at::kFloat;
    batch.images = layout() == data::Layout::nhwc ? view(pixels, {n, s, s, 3}, type).permute({0, 3, 1, 2})
                                                  : view(pixels, {n, 3, s, s}, type);
    batch.labels = view(loaded->labels, {n}, at::kLong);
    return true;
  }

  [[nodiscard]] data::LoaderReport report() const override {
    auto report = loader_.report();
    add_folder(report.broken);
    add_folder(report.converted);
    return report;
  }
  [[nodiscard]] data::EpochFiles epoch_files() const override {
    auto files = loader_.epoch_files();
    add_folder(files.broken);
    return files;
  }

 private:
  // normalize_images() prefers bytes in nhwc.
  [[nodiscard]] data::Layout layout() const {
    return options_.channels_last || as_bytes_ ? data::Layout::nhwc : data::Layout::nchw;
  }

  [[nodiscard]] data::LoaderOptions loader_options() const {
    data::LoaderOptions o;
    const bool train = part_ == Part::train;
    o.transform.augment = train ? data::Augment::train : data::Augment::eval;
    o.transform.image_size = options_.image_size;
    o.transform.layout = layout();
    o.transform.pixels = as_bytes_ ? data::PixelType::u8 : data::PixelType::f32;
    o.batch_size = batch_;
    o.workers = options_.workers;
    o.broken = train ? data::BrokenSample::replace : data::BrokenSample::skip;
    o.seed = options_.seed;
    return o;
  }

  [[nodiscard]] std::vector<std::int64_t> shuffled(std::int64_t epoch, std::int64_t first, std::int64_t done) const {
    kolo::DistributedSampler sampler({total_, placement_.rank, placement_.size, options_.seed});
    sampler.restore(static_cast<std::uint64_t>(epoch), done + first * batch_ * placement_.size);
    const auto wanted = static_cast<std::size_t>(images_ - first * batch_);
    auto indices = sampler.next(wanted);
    if (indices.size() < wanted) indices.push_back(indices.back());  // the second image of the last batch
    return indices;
  }

  [[nodiscard]] std::vector<std::int64_t> in_order() const {
    std::vector<std::int64_t> indices(static_cast<std::size_t>(images_));
    std::iota(indices.begin(), indices.end(), share_begin(placement_.rank));
    return indices;
  }

  void add_folder(std::vector<data::OddFile>& files) const {
    for (auto& file : files) file.name.insert(0, part_ == Part::train ? "train/" : "val/");
  }

  bool as_bytes_;
  DatasetPtr dataset_;
  data::Loader loader_;
};

// synthetic:device: the same ready tensors in each step, which costs no time. synthetic:host: a few batches of bytes,
// normalized in each step like the output of a decoder.
class SyntheticSource : public RankSource {
 public:
  SyntheticSource(const Options& options, const kolo::Placement& placement, Part part, const c10::Device& device,
                  Normalize normalize)
      : RankSource(synthetic_images(options, part), options, placement, part), normalize_(std::move(normalize)) {
    const std::uint64_t seed = (options.seed * 2 + (part == Part::train ? 0 : 1)) * 1000003 + placement.rank;
    auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
    const bool ready = options.data_kind == DataKind::synthetic_device;
    for (int i = 0; i < (ready ? 1 : 4); ++i) pool_.push_back(make_bytes(generator));
    if (ready) pool_[0] = {normalize_(pool_[0].images).to(device), pool_[0].labels.to(device)};
    if (!device.is_cpu()) normalize_ = [](const at::Tensor& bytes) { return bytes; };  // later, on the device
  }

  [[nodiscard]] int classes() const override { return options_.classes; }
  void begin(std::int64_t /*epoch*/, std::int64_t first, std::int64_t done) override {
    begin_share(first, done);
    next_ = first;
  }

  bool next(Batch& batch) override {
    if (next_ >= steps()) return false;
    const Batch& source = pool_[static_cast<std::size_t>(next_) % pool_.size()];
    const std::int64_t count = std::min<std::int64_t>(batch_, images_ - next_ * batch_);
    batch.images = source.images.narrow(0, 0, count);
    batch.labels = source.labels.narrow(0, 0, count);
    if (batch.images.scalar_type() == at::kByte) batch.images = normalize_(batch.images);
    ++next_;
    return true;
  }

 private:
  // Noise on a color that depends on the class, so that a network can learn. Bytes [n, s, s, 3], as a view
  // [n, 3, s, s].
  [[nodiscard]] Batch make_bytes(const at::Generator& generator) const {
    const auto labels = at::randint(0, options_.classes, {batch_}, generator, at::TensorOptions().dtype(at::kLong));
    const auto tint = at::stack({labels.remainder(7).mul(8), labels.div(7, "floor").remainder(7).mul(8),
                                 labels.div(49, "floor").remainder(7).mul(8)},
                                1);
    const auto noise = at::randint(0, 200, {batch_, options_.image_size, options_.image_size, 3}, generator,
                                   at::TensorOptions().dtype(at::kByte));
    return {noise.add(tint.to(at::kByte).view({batch_, 1, 1, 3})).permute({0, 3, 1, 2}), labels};
  }

  Normalize normalize_;
  std::vector<Batch> pool_;
  std::int64_t next_ = 0;
};

class DeviceSource : public BatchSource {
 public:
  DeviceSource(std::unique_ptr<BatchSource> source, const c10::Device& device, Normalize normalize)
      : source_(std::move(source)),
        device_(device),
        normalize_(std::move(normalize)),
        copy_stream_(c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device)),
        copied_(device.type()) {}

  [[nodiscard]] int classes() const override { return source_->classes(); }
  [[nodiscard]] std::int64_t steps() const override { return source_->steps(); }
  [[nodiscard]] data::LoaderReport report() const override { return source_->report(); }
  [[nodiscard]] data::EpochFiles epoch_files() const override { return source_->epoch_files(); }

  void begin(std::int64_t epoch, std::int64_t first, std::int64_t done) override {
    source_->begin(epoch, first, done);
    start_copy();
  }

  bool next(Batch& batch) override {
    if (!staged_) return false;
    batch = *std::exchange(staged_, std::nullopt);
    if (needs_copy_) {
      const c10::impl::VirtualGuardImpl backend(device_.type());
      const c10::Stream compute = backend.getStream(device_);
      copied_.block(compute);
      // The memory belongs to the copy stream, which must not reuse it while the compute stream reads it.
      for (const auto& tensor : {batch.images, batch.labels}) {
        backend.recordDataPtrOnStream(tensor.storage().data_ptr(), compute);
      }
      if (batch.images.scalar_type() == at::kByte) batch.images = normalize_(batch.images);
    }
    start_copy();
    return true;
  }

 private:
  // Takes the next batch from the source. That waits only in the first step, because loaders prefetch.
  void start_copy() {
    staged_.reset();
    Batch host;
    if (!source_->next(host)) return;
    needs_copy_ = host.images.device() != device_;
    if (!needs_copy_) {
      staged_ = host;
      return;
    }
    const c10::StreamGuard in_stream(copy_stream_);
    // Only copies from pinned memory are asynchronous. LibTorch's allocator reuses that memory after the copy.
    const auto copy = [&](const at::Tensor& from) { return from.pin_memory().to(device_, /*non_blocking=*/true); };
    staged_ = Batch{copy(host.images), copy(host.labels)};
    copied_.record(copy_stream_);
  }

  std::unique_ptr<BatchSource> source_;
  c10::Device device_;
  Normalize normalize_;
  c10::Stream copy_stream_;
  c10::Event copied_;            // of the staged batch
  std::optional<Batch> staged_;  // the next batch
  bool needs_copy_ = false;      // false: the source's batches are on the device
};

}  // namespace

std::unique_ptr<BatchSource> make_loader_source(const DatasetPtr& dataset, const Options& options,
                                                const kolo::Placement& placement, Part part,
                                                const c10::Device& device) {
  return std::make_unique<LoaderSource>(dataset, options, placement, part, device);
}

std::unique_ptr<BatchSource> make_device_source(std::unique_ptr<BatchSource> source, const c10::Device& device,
                                                Normalize normalize) {
  return std::make_unique<DeviceSource>(std::move(source), device, std::move(normalize));
}

std::unique_ptr<BatchSource> make_source(kolo::Context& context, const Options& options, Part part,
                                         const c10::Device& device, const DatasetPtr& dataset) {
  const auto format = options.channels_last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
  const Normalize normalize = [&context, format](const at::Tensor& bytes) {
    return kolo::normalize_images(context, bytes, {.format = format});
  };
  std::unique_ptr<BatchSource> source;
  if (options.data_kind == DataKind::folder || options.data_kind == DataKind::synthetic_jpeg) {
    if (dataset == nullptr) return nullptr;
    source = make_loader_source(dataset, options, context.placement(), part, device);
  } else {
    source = std::make_unique<SyntheticSource>(options, context.placement(), part, device, normalize);
  }
  if (device.is_cpu()) return source;
  return make_device_source(std::move(source), device, normalize);
}

}  // namespace imagenet
