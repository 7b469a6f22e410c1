#pragma once
// Batches on a device: while a step computes, the next batch is copied there in a stream of its own.
//
//   host            loader's batch n+1 -> pinned memory
//   copy stream     [ batch n ]                 [ batch n+1 ]           [ ...
//                              \ event                       \ event
//   compute stream              [ normalise n, step n ........ ][ normalise n+1, step n+1 ...
//
// Written against what every backend of LibTorch has registered with c10, like kolo's own binding: nothing of CUDA's.
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <memory>
#include <optional>

#include "batch_source.h"

namespace imagenet {

// What `source` has, on `device`. Images that are bytes travel as such, a quarter of the floats, and are normalised
// there. Batches that are on the device already are handed on as they are. next() orders a batch behind its copy, for
// the stream that is then current.
class DeviceSource : public BatchSource {
 public:
  DeviceSource(std::unique_ptr<BatchSource> source, const c10::Device& device, Normalise normalise);

  [[nodiscard]] int classes() const override { return source_->classes(); }
  [[nodiscard]] std::int64_t steps() const override { return source_->steps(); }
  void begin(std::int64_t epoch, std::int64_t first, std::int64_t done) override;
  bool next(Batch& batch) override;
  [[nodiscard]] kolo::data::LoaderReport report() const override { return source_->report(); }
  [[nodiscard]] kolo::data::EpochFiles epoch_files() const override { return source_->epoch_files(); }

 private:
  void stage();
  [[nodiscard]] at::Tensor enqueue_copy(const at::Tensor& from) const;

  std::unique_ptr<BatchSource> source_;
  c10::Device device_;
  Normalise normalise_;
  c10::Stream copies_;
  c10::Event copied_;            // of the staged batch
  std::optional<Batch> staged_;  // on its way to the device
  bool on_its_way_ = false;      // false: it was there already
};

}  // namespace imagenet
