#pragma once
// What the trainer says: JSON lines into a file (docs/formats.md) and progress on stdout. Only rank 0 speaks.
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "json_lines.h"
#include "kolo/counters.h"
#include "kolo/types.h"
#include "options.h"

namespace imagenet {

// Numbers of one training step. Times, loss and faults are means over the ranks.
struct StepRecord {
  std::int64_t step = 0;  // counted from 0 over all epochs
  std::int64_t epoch = 0;
  double step_ms = 0;       // everything between two steps' ends
  double data_ms = 0;       // of it, waiting for the batch
  double forward_ms = 0;    // of it, until the loss is there
  double exposed_ms = 0;    // of it, waiting for gradients after backward
  double update_ms = 0;     // of it, the optimizer's step
  double images_per_s = 0;  // over all ranks
  double loss = 0;
  double lr = 0;
  double page_faults = 0;  // minor ones, a rank
  double loss_scale = 0;   // 0: none is used
};

// One epoch, or what was run of it. Over all ranks.
struct EpochRecord {
  std::int64_t epoch = 0;
  bool whole = true;  // not ended by --steps before its last image
  double train_loss = 0, train_top1 = 0;
  bool validated = false;
  double val_loss = 0, top1 = 0, top5 = 0;  // of the validation images
  std::int64_t val_images = 0;
  std::int64_t images = 0;  // trained on
  double seconds = 0;       // of training alone
};

class Reporter {
 public:
  // An inactive reporter (ranks other than 0) ignores everything. Throws kolo::UsageError when `json` cannot be opened.
  // `append`: behind the complete lines that are there, for a run that goes on.
  Reporter(bool active, const std::string& json, bool append);
  void header(const Options& options, const kolo::Placement& placement, const std::string& torch_version);
  // Where the bar stands; cheap enough for every step.
  void position(std::int64_t epoch, std::int64_t epochs, std::int64_t step, std::int64_t steps);
  void step(const StepRecord& record);
  void epoch(const EpochRecord& record, std::int64_t epochs);
  void counters(const kolo::CounterSnapshot& counters);
  // Of a run that only validates what it has resumed.
  void validation(const EpochRecord& record);
  void note(const std::string& line);

 private:
  void draw();
  // Warns if the line cannot be written.
  void write(const nlohmann::ordered_json& line);

  bool active_;
  bool terminal_;
  std::string json_path_;
  std::unique_ptr<JsonLines> json_;  // null: none is written
  std::int64_t lines_missing_ = 0;
  bool write_failed_ = false;  // of the last line
  bool bar_drawn_ = false;
  std::chrono::steady_clock::time_point last_drawn_{};
  std::string where_;
  double done_ = 0;  // of the epoch, 0 to 1
  StepRecord last_;
  bool fresh_ = false;  // last_ has not been drawn
  double shown_loss_ = 0;
};

}  // namespace imagenet
