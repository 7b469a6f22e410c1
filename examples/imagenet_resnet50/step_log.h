#pragma once
// Per-step numbers of all ranks, kept out of the steady step: they are reduced together, every few steps.
#include <vector>

#include "kolo/context.h"
#include "report.h"

namespace imagenet {

class StepLog {
 public:
  StepLog(kolo::Context& context, Reporter& reporter, int global_batch)
      : context_(context), reporter_(reporter), global_batch_(global_batch) {}
  void add(const StepRecord& record) { pending_.push_back(record); }
  // Averages what was added over the ranks and hands it to the reporter. Collective: every rank has added the same
  // steps.
  void flush();

 private:
  kolo::Context& context_;
  Reporter& reporter_;
  int global_batch_;
  std::vector<StepRecord> pending_;
};

}  // namespace imagenet
