#include "kolo/data/fingerprint.h"

#include <span>

#include "base/hash.h"

namespace kolo::data {

// Each name is hashed by itself: its end is part of the chain.
Fingerprint fingerprint(const Dataset& dataset) {
  Fingerprint result{.classes = dataset.classes(), .samples = dataset.size()};
  for (std::int64_t label = 0; label < result.classes; ++label) {
    result.class_names = base::hash64(dataset.class_name(label), result.class_names);
  }
  for (std::int64_t index = 0; index < result.samples; ++index) {
    const std::int64_t label = dataset.label(index);
    result.sample_names = base::hash64(dataset.name(index), result.sample_names);
    result.sample_names = base::hash64(std::as_bytes(std::span(&label, 1)), result.sample_names);
  }
  return result;
}

}  // namespace kolo::data
