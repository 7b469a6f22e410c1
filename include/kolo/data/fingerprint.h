#pragma once
// What decides which sample an index means, in a few numbers that ranks can compare.
#include <cstdint>

#include "kolo/data/dataset.h"
#include "kolo/export.h"

namespace KOLO_EXPORT kolo {
namespace data {

// Of names, not of contents: `class_names` and `sample_names` are XXH3 hashes of the lists in their order. Paths are
// relative to the data set's root, so that it may lie elsewhere on each host.
struct Fingerprint {
  std::int64_t classes = 0;
  std::uint64_t class_names = 0;
  std::int64_t samples = 0;
  std::uint64_t sample_names = 0;  // with their labels
  bool operator==(const Fingerprint&) const = default;
};

// By Dataset::class_name(), name() and label(): time grows with the number of samples.
[[nodiscard]] Fingerprint fingerprint(const Dataset& dataset);

}  // namespace data
}  // namespace kolo
