#pragma once
// The data sets of a run, equal on all ranks.
#include <memory>
#include <string>
#include <vector>

#include "kolo/checkpoint.h"
#include "kolo/context.h"
#include "kolo/data/dataset.h"
#include "options.h"

namespace imagenet {

using DatasetPtr = std::shared_ptr<const kolo::data::Dataset>;

struct Datasets {
  DatasetPtr train, validation;    // null: made-up tensors, or no val/
  std::vector<std::string> notes;  // what the listings of folders leave out
  // Fingerprint of the training images, for checkpoints; empty for synthetic data.
  kolo::checkpoint::Metadata fingerprint;
};

// Validation images have the class names of the training images. Throws kolo::UsageError if a data set cannot be
// opened on some rank, and kolo::MismatchError, with the first difference, if data sets differ between ranks: the same
// on all ranks. Collective.
[[nodiscard]] Datasets open_datasets(kolo::Context& context, const Options& options);

}  // namespace imagenet
