#pragma once
// Per-step numbers of all ranks, kept out of the steady step: they are reduced together, every few steps.
//
// On a device the host runs ahead, up to a few steps. So losses stay there until then, and the time that all steps
// since the last report have taken together is what is known of each: the mean is written for all of them.
#include <ATen/core/Tensor.h>

#include <vector>

#include "kolo/context.h"
#include "report.h"

namespace imagenet {

class StepLog {
 public:
  StepLog(kolo::Context& context, Reporter& reporter, int global_batch)
      : context_(context), reporter_(reporter), global_batch_(global_batch) {}
  // `loss` instead of record.loss when it is still on a device.
  void add(const StepRecord& record, const at::Tensor& loss);
  // Averages what was added over the ranks and hands it to the reporter. Collective: every rank has added the same
  // steps, and has waited for its device within the last one's time. Returns this rank's losses.
  std::vector<double> flush();

 private:
  void fetch_from_device();

  kolo::Context& context_;
  Reporter& reporter_;
  int global_batch_;
  std::vector<StepRecord> pending_;
  std::vector<at::Tensor> losses_;  // of pending_, if they are on a device
};

}  // namespace imagenet
