#pragma once
// Checkpoints of a training run, copied between two steps and written in the background.
//
//   kolo::Checkpointer checkpoints(*context, "/shared/run7", {.every = std::chrono::minutes(5)});
//   checkpoints.add("model", model);
//   checkpoints.add("optimizer", optimizer);
//   checkpoints.add("sampler", sampler);
//   std::int64_t done = checkpoints.restore();  // completed steps; 0: a fresh start
//   while (done < steps && !checkpoints.stop_requested()) {
//     train_step();
//     checkpoints.step(++done);
//   }
//   const int status = checkpoints.finish();  // the exit status of the program
#include <torch/optim/optimizer.h>
#include <torch/serialize/archive.h>

#include <chrono>
#include <concepts>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "kolo/checkpoint.h"
#include "kolo/context.h"
#include "kolo/detail/export.h"
#include "kolo/distributed_sampler.h"
#include "kolo/torch/broadcast.h"
#include "kolo/torch/grad_scaler.h"

namespace KOLO_EXPORT kolo {

// A number of steps, or a time:  {.every = 200}   {.every = std::chrono::minutes(5)}
class CheckpointInterval {
 public:
  template <std::integral Count>
  CheckpointInterval(Count steps) : steps_(static_cast<std::int64_t>(steps)) {}
  template <class Rep, class Period>
  CheckpointInterval(std::chrono::duration<Rep, Period> time)
      : time_(std::chrono::duration_cast<std::chrono::milliseconds>(time)) {}

  // 0: the interval is a time.
  [[nodiscard]] std::int64_t steps() const noexcept { return steps_; }
  // 0: the interval is a number of steps.
  [[nodiscard]] std::chrono::milliseconds time() const noexcept { return time_; }

 private:
  std::int64_t steps_ = 0;
  std::chrono::milliseconds time_{0};
};

// Events that request a stop, beside Checkpointer::request_stop().
//   signals  SIGTERM, SIGUSR1, SIGUSR2 and the first SIGINT (Ctrl-C) of any rank; a second SIGINT ends the process.
//            Handlers that the program installed before are called, too.
enum class StopOn : std::uint8_t { nothing, signals };

// Must be equal on all ranks.
struct CheckpointerOptions {
  // A checkpoint is due after each multiple of this number of steps, or this time after the last one was due.
  CheckpointInterval every = std::chrono::minutes(10);
  // Number of checkpoints that stay on disk; see checkpoint::CheckpointOptions.
  int keep = 3;
  std::chrono::seconds keep_one_per{0};
  StopOn stop_on = StopOn::nothing;
  // The time that a scheduler leaves between the signal and the end of the process. If the rest is shorter than the
  // last write took, finish() writes no checkpoint. 0: no limit.
  std::chrono::milliseconds grace{0};
  // If not empty: all ranks stop when this file appears. Rank 0 looks for it once in a second; the constructor throws
  // UsageError if it exists.
  std::filesystem::path stop_file{};
  // Settings that the results depend on. restore() logs a warning for each one that differs from the checkpoint.
  checkpoint::Metadata settings{};
};

// For objects of which each rank has its own, such as a data loader. restore() gives rank r the object that rank r
// saved; a rank that the saved run did not have keeps what it has.
struct PerRank {};
inline constexpr PerRank per_rank{};

// A torch::nn::Module, a torch::jit::Module, a module holder, or a pointer to a module.
template <class Model>
concept ModelWithParameters = requires(const Model& model) {
  model.named_parameters();
}
|| requires(const Model& model) { model->named_parameters(); };

// What a Checkpointer has done since it was constructed. Equal on all ranks, except times and bytes.
struct CheckpointCounts {
  std::int64_t written = 0;
  std::int64_t skipped = 0;  // due while the one before was still being written
  std::int64_t failed = 0;
  std::chrono::nanoseconds blocked{0};  // step() copied this rank's part of the last checkpoint
  std::chrono::nanoseconds writing{0};  // of this rank's part of the last checkpoint, in the background
  std::uint64_t bytes = 0;              // of this rank's part of the last checkpoint
};

// The folder is one that all hosts see, or one of the same name on each host; ranks find out which. Of tensors that
// all ranks hold alike, each rank copies and writes a part. Any number of ranks may restore. docs/checkpoints.md lists
// the files.
//
// Bits that travel with the gradients tell all ranks that a checkpoint is due. So the program needs a
// DistributedOptimizer, and calls step() after each of its steps. Steps send no further message. When all ranks have
// written their parts, two small gathers publish the checkpoint.
//
// A write that fails is logged and counted; the next checkpoint tries again. With KOLO_SYNC=off the ranks train
// different weights: restore() then returns 0 and nothing is written.
//
// Collective: constructor, restore(), step(), finish(). They are Communicator calls. At most one Checkpointer for a
// Context. Use it from the thread that calls the optimizers' step(); rounds of other threads carry no request. Destroy
// it before the Context and before the objects that were added.
//
// If an exception ends an optimizer step on all ranks, training may go on. If it leaves one rank between the
// optimizer's step() and that of the Checkpointer, ranks count different steps: checkpoints then fail.
class Checkpointer {
 public:
  // Locks the folder (checkpoint::CheckpointDirectory::lock()); waits up to 61 s for the lock of a job on another host
  // that may have ended. Throws UsageError on all ranks if another process holds the lock, a host cannot write there,
  // or the options are out of range.
  Checkpointer(Context& context, std::filesystem::path folder, CheckpointerOptions options = {});
  // Waits for a write that is running, at most Config::timeout if the file system answers. Does not publish it: call
  // finish().
  ~Checkpointer();
  Checkpointer(const Checkpointer&) = delete;
  Checkpointer& operator=(const Checkpointer&) = delete;

  // Adds an object under a name that is unique; letters, digits, '-' and '_'. All ranks add the same, before
  // restore(). The object must outlive the Checkpointer.
  //
  // The parameters of a model, and the buffers of rank 0.
  template <ModelWithParameters Model>
  void add(const std::string& name, const Model& model) {
    add_model(
        name, [&model] { return parameters_of(model); }, [&model] { return model_tensors(model); });
  }
  template <ModelWithParameters Model>
  void add(const std::string& name, const Model&& model) = delete;  // it would not outlive the call
  // State and options. The state of SGD, Adam, AdamW, RMSprop and Adagrad, and of classes that are derived from them,
  // is split among the ranks; that of other optimizers is saved whole by rank 0, which takes longer.
  void add(const std::string& name, torch::optim::Optimizer& optimizer);
  // Its position counts the samples that next() has returned, also those that the program has not used yet.
  void add(const std::string& name, DistributedSampler& sampler);
  void add(const std::string& name, GradScaler& scaler);
  // Anything with save(torch::serialize::OutputArchive&) and load(torch::serialize::InputArchive&). Rank 0 saves it,
  // and all ranks load that; with `per_rank` each rank saves its own.
  template <class Object>
  requires(requires(Object& object, torch::serialize::OutputArchive& out, torch::serialize::InputArchive& in) {
    object.save(out);
    object.load(in);
  } && !std::derived_from<Object, torch::optim::Optimizer> &&
           !ModelWithParameters<Object>) void add(const std::string& name, Object& object) {
    add_object(
        name, [&object](auto& out) { object.save(out); }, [&object](auto& in) { object.load(in); }, false);
  }
  template <class Object>
  void add(const std::string& name, Object& object, PerRank /*each*/) {
    add_object(
        name, [&object](auto& out) { object.save(out); }, [&object](auto& in) { object.load(in); }, true);
  }

  // Loads the newest checkpoint whose files are all there and undamaged, and the state of the random generators. Logs
  // the ones that it skips. Returns the steps that were completed; 0 without a checkpoint. Call it once, before the
  // first step(). Throws UsageError on all ranks if the checkpoint does not fit the objects, which may then be partly
  // loaded.
  std::int64_t restore();

  // Call it after each optimizer step, in the same order on all ranks; `done`: completed steps. If a checkpoint is due,
  // copies this rank's part and returns; a thread writes it. Publishes one that all ranks have written.
  void step(std::int64_t done);

  // Asks all ranks to stop after a common step; with KOLO_SYNC=off only this rank. On any rank, in any thread, also in
  // a signal handler.
  void request_stop() noexcept;
  // Equal on all ranks; changes only in step().
  [[nodiscard]] bool stop_requested() const noexcept;

  // Writes a checkpoint of the last step, unless it has one, and waits until it is published. Returns the exit status
  // of the program: 0, or kStoppedStatus if a stop was requested. Throws on all ranks: BackendError if the write fails,
  // TimeoutError if a rank needs more than 30 minutes for it.
  int finish();
  // "Stopped before the end, start me again": EX_TEMPFAIL of sysexits.h.
  static constexpr int kStoppedStatus = 75;

  [[nodiscard]] const CheckpointCounts& counts() const noexcept;

 private:
  using Save = std::function<void(torch::serialize::OutputArchive&)>;
  using Load = std::function<void(torch::serialize::InputArchive&)>;
  using ListTensors = std::function<NamedTensors()>;
  void add_model(const std::string& name, ListTensors parameters, ListTensors all);
  void add_object(const std::string& name, Save save, Load load, bool each_rank);

  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kolo
