#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>

#include "kolo/export.h"

namespace KOLO_EXPORT kolo {
namespace data {

struct SynthOptions {
  int classes = 10;
  std::int64_t images = 1000;     // in train/, spread evenly over the classes
  std::int64_t val_images = 200;  // in val/
  int image_size = 96;            // of the shorter side; the longer one varies up to 4/3 of it
  std::uint64_t seed = 0;
  int threads = 0;  // 0: OMP_NUM_THREADS, else one for each core that the process may use
};

// Writes root/{train,val}/<class>/*.JPEG whose classes differ in colour, texture and shape, so that a network learns
// them within an epoch of a few hundred images. The bytes depend on the options alone, not on the threads. Returns
// false without touching anything when root already holds exactly this set (root/.kolo-synth.json says so); a root with
// other content is a UsageError. progress(done, total) may come from any thread, one call at a time.
bool write_synthetic_folder(const std::filesystem::path& root, const SynthOptions& options,
                            const std::function<void(std::int64_t done, std::int64_t total)>& progress = {});

}  // namespace data
}  // namespace kolo
