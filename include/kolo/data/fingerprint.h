#pragma once
// Hashes of the names and labels of a dataset. Ranks compare them to verify that an index means the same sample.
//
//   const kolo::data::Fingerprint mine = kolo::data::fingerprint(*dataset);
//   const auto all = kolo::gather_texts(context, "dataset", std::to_string(mine.sample_names));
#include <cstdint>

#include "kolo/data/dataset.h"
#include "kolo/detail/export.h"

namespace KOLO_EXPORT kolo {
namespace data {

// Hashes (XXH3) of names and labels in dataset order; file contents are not read. Names are relative to the root of the
// dataset, so the root may differ between hosts.
struct Fingerprint {
  std::int64_t classes = 0;
  std::uint64_t class_names = 0;
  std::int64_t samples = 0;
  std::uint64_t sample_names = 0;  // with their labels
  bool operator==(const Fingerprint&) const = default;
};

// Reads class_name(), name() and label() of the dataset, in time linear in the number of samples.
[[nodiscard]] Fingerprint fingerprint(const Dataset& dataset);

}  // namespace data
}  // namespace kolo
