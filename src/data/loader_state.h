#pragma once
// The loader's ring of batches and the threads that fill it.
//
//   free_ --claim()--> filling_, in_order_ --all samples finished--> next() lends it out --Batch released--> free_
//
// A sample is the unit of work: a worker claims (slot, position) under the mutex, decodes without it, and counts itself
// as finished under it. Batches leave in order although their samples finish in any. start_epoch() abandons slots: one
// whose claimed samples are still being decoded returns to free_ with the last of them.
#include <condition_variable>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

#include "kolo/data/loader.h"
#include "report.h"

namespace kolo::data {

class SampleMaker;

class LoaderState : public std::enable_shared_from_this<LoaderState> {
 public:
  LoaderState(std::shared_ptr<const Dataset> dataset, const LoaderOptions& options);

  void start_workers();
  // Joins the workers, or leaves them behind when one does not answer in time.
  void stop() noexcept;

  void start_epoch(std::int64_t epoch, std::vector<std::int64_t> indices);
  std::shared_ptr<const Batch> next();
  [[nodiscard]] std::int64_t batches() const;
  [[nodiscard]] LoaderReport report() const { return book_.report(*dataset_); }
  [[nodiscard]] EpochFiles epoch_files() const;

 private:
  struct Slot {
    std::byte* images = nullptr;
    std::vector<std::int64_t> labels;
    std::vector<std::int64_t> indices;  // -1: nothing there (BrokenSample::skip)
    std::int64_t first = 0;             // position of its first sample in the epoch
    std::int64_t number = 0;
    std::int64_t count = 0;
    std::int64_t claimed = 0;
    std::int64_t finished = 0;
    bool abandoned = false;
    std::vector<std::int64_t> broken;  // files met while it was filled
    std::exception_ptr error;
    Batch batch;
  };
  struct Task {
    Slot* slot;
    std::int64_t position;
    std::int64_t index;
    std::uint64_t epoch;
  };

  void allocate();
  void work() noexcept;
  std::optional<Task> claim();
  [[nodiscard]] bool can_claim() const;
  void open_slot();
  void run(SampleMaker& maker, const Task& task);
  // Adds the broken files that it meets to `broken`.
  void make_sample(SampleMaker& maker, const Task& task, std::vector<std::int64_t>& broken);
  // False: the file of `index` is broken.
  bool try_sample(SampleMaker& maker, const Task& task, std::int64_t index, std::vector<std::int64_t>& broken);
  // The other samples of its class.
  [[nodiscard]] std::vector<std::int64_t> others_of_class(std::int64_t index);
  void finish(Slot& slot, const std::vector<std::int64_t>& broken, std::exception_ptr error);
  void give_back(Slot& slot);
  [[nodiscard]] bool front_is_ready() const;
  [[noreturn]] void throw_late() const;
  std::shared_ptr<const Batch> lend(Slot& slot);
  void close_gaps(Slot& slot) const;

  const std::shared_ptr<const Dataset> dataset_;
  const LoaderOptions options_;
  const std::size_t image_bytes_;
  std::unique_ptr<std::byte, void (*)(void*)> memory_;
  std::vector<Slot> slots_;
  ReportBook book_;
  std::vector<std::thread> workers_;
  std::once_flag classes_listed_;
  std::map<std::int64_t, std::vector<std::int64_t>> samples_of_class_;  // from the first broken file on

  mutable std::mutex mutex_;  // guards what follows and the slots' fields, except the samples being decoded
  std::condition_variable to_do_;
  std::condition_variable ready_;
  std::condition_variable ended_;
  std::vector<Slot*> free_;
  std::deque<Slot*> in_order_;
  Slot* filling_ = nullptr;
  std::vector<std::int64_t> indices_;
  std::uint64_t epoch_ = 0;
  std::int64_t batches_ = -1;  // before the first epoch
  std::int64_t opened_ = 0;
  std::int64_t delivered_ = 0;
  std::int64_t read_ = 0;          // files, for the batches that were delivered
  std::set<std::int64_t> broken_;  // of these
  int running_ = 0;
  bool stopping_ = false;
  std::exception_ptr worker_death_;  // a worker could not even begin
};

}  // namespace kolo::data
