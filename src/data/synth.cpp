#include "kolo/data/synth.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <exception>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/cores.h"
#include "jpeg_encoder.h"
#include "kolo/checkpoint.h"
#include "kolo/error.h"
#include "random.h"
#include "synth_pattern.h"

namespace kolo::data {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kMarker = ".kolo-synth.json";
constexpr int kVersion = 1;  // of the patterns: other pixels, other number
constexpr int kQuality = 90;
constexpr std::uint64_t kValidation = std::uint64_t{1} << 40U;  // numbers of validation images start here

json describe(const SynthOptions& options, bool complete) {
  return {{"version", kVersion},
          {"classes", options.classes},
          {"images", options.images},
          {"val_images", options.val_images},
          {"image_size", options.image_size},
          {"seed", options.seed},
          {"complete", complete}};
}

void check(const SynthOptions& options) {
  constexpr int kMaxClasses = 10'000;
  constexpr int kMinSize = 8;
  constexpr int kMaxSize = 4096;
  if (options.classes < 1 || options.classes > kMaxClasses)
    throw UsageError("synthetic folder: classes is " + std::to_string(options.classes) + "; it must be 1 to 10000");
  if (options.images < options.classes)
    throw UsageError("synthetic folder: images is " + std::to_string(options.images) +
                     "; each class needs at least one");
  if (options.val_images != 0 && options.val_images < options.classes) {
    throw UsageError("synthetic folder: val-images is " + std::to_string(options.val_images) +
                     "; it must be 0, or at least one for each class");
  }
  if (options.image_size < kMinSize || options.image_size > kMaxSize)
    throw UsageError("synthetic folder: size is " + std::to_string(options.image_size) + "; it must be 8 to 4096");
  if (options.threads < 0)
    throw UsageError("synthetic folder: threads is " + std::to_string(options.threads) + "; it must be 0 or more");
}

// Whether the folder is already as wanted; throws when something else is in it.
bool already_there(const fs::path& root, const SynthOptions& options) {
  if (!fs::exists(root) || fs::is_empty(root)) return false;
  std::ifstream file(root / kMarker);
  const json marker = json::parse(file, nullptr, false);
  if (marker == describe(options, true)) return true;
  if (marker == describe(options, false)) return false;  // was interrupted: made again
  throw UsageError(root.string() +
                   (marker.is_object() ? " holds images that were created with other options"
                                       : " holds files that kolo did not create") +
                   "; remove it or use another folder");
}

std::string class_name(std::int64_t label) {
  char text[32];
  std::snprintf(text, sizeof(text), "class_%04lld", static_cast<long long>(label));
  return text;
}

// Image i of one split: its file and its pixels.
struct Job {
  fs::path file;
  Pattern pattern;
};

Job job_for(const fs::path& root, const SynthOptions& options, std::int64_t i) {
  const bool train = i < options.images;
  const std::int64_t in_split = train ? i : i - options.images;
  const std::int64_t label = in_split % options.classes;
  const std::uint64_t number = static_cast<std::uint64_t>(in_split) + (train ? 0 : kValidation);
  SampleRandom random(options.seed, 0x512E, number);
  const int longer = options.image_size + random.below(options.image_size / 3 + 1);
  const bool wide = random.below(2) == 0;
  char name[64];
  std::snprintf(name, sizeof(name), "%s_%08lld.JPEG", class_name(label).c_str(), static_cast<long long>(in_split));
  return {root / (train ? "train" : "val") / class_name(label) / name,
          {label, wide ? longer : options.image_size, wide ? options.image_size : longer, options.seed, number}};
}

void write_image(const Job& job) {
  const std::vector<std::uint8_t> rgb = draw_pattern(job.pattern);
  const std::vector<std::byte> jpeg = encode_jpeg(rgb, job.pattern.width, job.pattern.height, kQuality);
  std::ofstream file(job.file, std::ios::binary | std::ios::trunc);
  file.write(reinterpret_cast<const char*>(jpeg.data()), static_cast<std::streamsize>(jpeg.size()));
  file.close();
  if (!file) throw BackendError("cannot write " + job.file.string());
}

// Takes images by number until there are none left or another thread has failed.
class Painters {
 public:
  Painters(const fs::path& root, const SynthOptions& options,
           const std::function<void(std::int64_t, std::int64_t)>& tell)
      : root_(root), options_(options), tell_(tell), total_(options.images + options.val_images) {}

  void run() {
    const int count = std::clamp(options_.threads > 0 ? options_.threads : base::threads_of_process(), 1, 64);
    {
      std::vector<std::jthread> threads;
      for (int i = 0; i < count; ++i) threads.emplace_back([this] { paint(); });
    }
    if (error_) std::rethrow_exception(error_);
  }

 private:
  void paint() noexcept {
    try {
      for (std::int64_t i = next_++; i < total_; i = next_++) {
        write_image(job_for(root_, options_, i));
        const std::lock_guard lock(mutex_);
        ++done_;
        if (tell_) tell_(done_, total_);
      }
    } catch (...) {
      next_ = total_;
      const std::lock_guard lock(mutex_);
      if (!error_) error_ = std::current_exception();
    }
  }

  const fs::path& root_;
  const SynthOptions& options_;
  const std::function<void(std::int64_t, std::int64_t)>& tell_;
  const std::int64_t total_;
  std::atomic<std::int64_t> next_{0};
  std::mutex mutex_;
  std::int64_t done_ = 0;
  std::exception_ptr error_;
};

}  // namespace

bool write_synthetic_folder(const fs::path& root, const SynthOptions& options,
                            const std::function<void(std::int64_t, std::int64_t)>& progress) {
  check(options);
  try {
    if (already_there(root, options)) return false;
    for (std::int64_t label = 0; label < options.classes; ++label) {
      fs::create_directories(root / "train" / class_name(label));
      if (options.val_images > 0) fs::create_directories(root / "val" / class_name(label));
    }
  } catch (const fs::filesystem_error& error) {
    throw BackendError(error.what());
  }
  checkpoint::write_file(root / kMarker, describe(options, false).dump() + "\n");
  Painters(root, options, progress).run();
  checkpoint::write_file(root / kMarker, describe(options, true).dump() + "\n");
  return true;
}

}  // namespace kolo::data
