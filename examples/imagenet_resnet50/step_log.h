#pragma once
// Per-step numbers of all ranks, kept out of the steady step: they are reduced together, every few steps.
#include <vector>

#include "kolo/context.h"
#include "report.h"

namespace imagenet {

class StepLog {
 public:
  // `reduce` false: rank 0's own numbers, without talking to anyone.
  StepLog(kolo::Context& context, Reporter& reporter, int global_batch, bool reduce)
      : context_(context), reporter_(reporter), global_batch_(global_batch), reduce_(reduce) {}
  void add(const StepRecord& record) { pending_.push_back(record); }
  // Averages what was added over the ranks and hands it to the reporter. Collective when reducing: every rank has added
  // the same steps.
  void flush();

 private:
  kolo::Context& context_;
  Reporter& reporter_;
  int global_batch_;
  bool reduce_;
  std::vector<StepRecord> pending_;
};

}  // namespace imagenet
