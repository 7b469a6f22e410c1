#pragma once
// Makes a small folder of JPEG images for tests and demonstrations.
//
//   kolo::data::write_synthetic_folder("images", {.classes = 10, .images = 1000});
#include <cstdint>
#include <filesystem>
#include <functional>

#include "kolo/detail/export.h"

namespace KOLO_EXPORT kolo {
namespace data {

struct SynthOptions {
  int classes = 10;
  std::int64_t images = 1000;     // in train/, distributed evenly over the classes
  std::int64_t val_images = 200;  // in val/
  int image_size = 96;            // pixels of the shorter side; the longer one has up to 4/3 of it
  std::uint64_t seed = 0;
  int threads = 0;  // 0: OMP_NUM_THREADS, else one for each core that the process may use
};

// Writes root/{train,val}/<class>/*.JPEG. Classes differ in colour, texture and shape, so that a network learns them in
// an epoch of a few hundred images. The bytes depend on the options only, not on the threads. Returns false and changes
// nothing if root already holds exactly this set, as root/.kolo-synth.json says. Throws UsageError for a root with
// other content. Calls progress(done, total) from any thread, one call at a time.
bool write_synthetic_folder(const std::filesystem::path& root, const SynthOptions& options,
                            const std::function<void(std::int64_t done, std::int64_t total)>& progress = {});

}  // namespace data
}  // namespace kolo
