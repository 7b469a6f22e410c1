#pragma once
// The output of a run: progress and warnings on stdout, JSON lines in a file (docs/formats.md), losses that are not
// finite, and damaged files. Only rank 0 prints and writes.
#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "kolo/context.h"
#include "kolo/data/loader.h"
#include "kolo/types.h"
#include "options.h"

namespace imagenet {

// The text of `value`, an nlohmann::json or ordered_json. Paths are bytes and JSON is UTF-8: each byte that is not
// UTF-8 becomes U+FFFD.
template <class Json>
std::string json_text(const Json& value, int indent = -1) {
  return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

// Values of one training step. StepLog averages times, loss and faults over the ranks.
struct StepRecord {
  std::int64_t step = 0;  // counted from 0 over all epochs
  std::int64_t epoch = 0;
  double step_ms = 0;       // from the end of the previous step to the end of this one
  double data_ms = 0;       // part of step_ms: wait for the batch
  double forward_ms = 0;    // part of step_ms: forward and loss
  double exposed_ms = 0;    // part of step_ms: wait for gradients after backward
  double update_ms = 0;     // part of step_ms: the optimizer
  double images_per_s = 0;  // of all ranks
  double loss = 0;
  double lr = 0;
  double page_faults = 0;  // minor page faults of a rank
  double loss_scale = 0;   // 0: no loss scaling
  at::Tensor device_loss;  // replaces `loss` until StepLog::flush(); undefined on the CPU
};

// Values of one epoch or, with --steps, of the part of it that was trained. Over all ranks.
struct EpochRecord {
  std::int64_t epoch = 0;
  bool whole = true;  // false: --steps ended it
  double train_loss = 0, train_top1 = 0;
  bool validated = false;
  double val_loss = 0, top1 = 0, top5 = 0;
  std::int64_t val_images = 0;
  std::int64_t images = 0;  // of training
  double seconds = 0;       // of training
};

// A file with one JSON value for each line. After a failed write to a regular file the incomplete line is removed. An
// incomplete line of a killed process is removed when the file is opened with `append`.
class JsonLines {
 public:
  // `append`: keeps the content and removes an incomplete last line; otherwise the first write() empties the file.
  // Throws kolo::UsageError if opening fails.
  JsonLines(const std::string& path, bool append);
  ~JsonLines();
  JsonLines(const JsonLines&) = delete;
  JsonLines& operator=(const JsonLines&) = delete;

  // Returns "" or the reason why the line is missing.
  std::string write(const nlohmann::ordered_json& line);

 private:
  void cut_torn_line();

  std::string path_;
  int fd_ = -1;
  bool keep_content_;
};

class Reporter {
 public:
  // If not `active` (ranks other than 0), all calls do nothing. `append`: adds to the JSON lines of an earlier run.
  // Throws kolo::UsageError if `json` cannot be opened.
  Reporter(bool active, const std::string& json, bool append);
  void header(const Options& options, const kolo::Placement& placement);
  // Updates the progress on stdout, at most every 5 s, or every 200 ms in a terminal. Cheap enough for each step.
  void progress(std::int64_t epoch, std::int64_t epochs, std::int64_t step, std::int64_t steps);
  void step(const StepRecord& record);
  void epoch(const EpochRecord& record, std::int64_t epochs);
  void validation(const EpochRecord& record);
  void counters(const kolo::CounterSnapshot& counters);
  void note(const std::string& line);
  void warn(const std::string& line) { note("warning: " + line); }

 private:
  void write(const nlohmann::ordered_json& line);

  bool active_;
  bool terminal_;
  std::string json_path_;
  std::unique_ptr<JsonLines> json_;  // null: no file
  std::int64_t lines_missing_ = 0;
  bool write_failed_ = false;  // of the last line
  bool bar_drawn_ = false;
  std::chrono::steady_clock::time_point last_drawn_{};
  StepRecord last_;
  bool fresh_ = false;  // last_ has not been printed
  double shown_loss_ = 0;
};

// Collects the values of steps and reduces them over the ranks every few steps, outside of the measured times. On a
// device the CPU runs ahead of the steps: then each step gets the mean of the times since the last flush().
class StepLog {
 public:
  StepLog(kolo::Context& context, Reporter& reporter, int global_batch)
      : context_(context), reporter_(reporter), global_batch_(global_batch) {}
  void add(const StepRecord& record) { pending_.push_back(record); }
  // Reports the added steps. Returns this rank's losses. Collective: all ranks have added the same steps.
  std::vector<double> flush();

 private:
  kolo::Context& context_;
  Reporter& reporter_;
  int global_batch_;
  std::vector<StepRecord> pending_;
};

// Warns of losses that are NaN or infinite, and ends the run after 20 consecutive such steps.
class LossWatch {
 public:
  LossWatch(kolo::Context& context, Reporter& reporter, OnNan on_nan)
      : context_(context), reporter_(reporter), on_nan_(on_nan) {}

  // `losses` are those of this rank, beginning with step `first`. Warns at the first non-finite loss of a sequence of
  // steps, and when the set of affected ranks changes. Returns the reason to end the run, or "". Collective: all ranks
  // pass the same steps and get the same text.
  [[nodiscard]] std::string check(std::int64_t first, std::span<const double> losses);

 private:
  kolo::Context& context_;
  Reporter& reporter_;
  OnNan on_nan_;
  int consecutive_ = 0;
  std::string ranks_;  // of the last step, if its loss was not finite
};

// Names the first weight or BatchNorm statistic that is not finite, and the ranks; "" if all are finite. Collective:
// all ranks get the same text.
[[nodiscard]] std::string non_finite_state(kolo::Context& context, const torch::nn::Module& model);

// Number of damaged files that an epoch may have in which all ranks together have read `read` files: `max_broken` or,
// if that is -1, the larger of 1 % of them and 10.
[[nodiscard]] std::int64_t allowed_broken(std::int64_t max_broken, std::int64_t read) noexcept;

// `files`: of this rank in the epoch. Throws kolo::Error on all ranks if more files are damaged, each counted once,
// than allowed_broken(). Collective.
void check_broken(kolo::Context& context, const kolo::data::EpochFiles& files, std::int64_t epoch,
                  std::int64_t max_broken);

// Damaged and missing files, epoch by epoch.
class DamageReport {
 public:
  // Returns lines for the user: the numbers of images that were replaced or left out since the last call, over all
  // ranks, and the files that no earlier call has named. Empty if there was no such image. Collective.
  std::vector<std::string> next(kolo::Context& context, const kolo::data::LoaderReport& report);

 private:
  std::array<double, 2> before_{};  // of this rank: replaced, left out
  std::set<std::string> named_;
};

// Returns lines for the user about all damaged and converted files of all ranks. Adds broken_files, converted_files,
// images_replaced and images_skipped to `counters`. Collective.
std::vector<std::string> report_files(kolo::Context& context, const kolo::data::LoaderReport& report,
                                      kolo::CounterSnapshot& counters);

}  // namespace imagenet
