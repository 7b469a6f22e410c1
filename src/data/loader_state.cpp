#include "loader_state.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "image.h"
#include "kolo/error.h"
#include "random.h"
#include "sample_maker.h"

namespace kolo::data {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr int kLent = 2;                        // batches the caller may hold
constexpr std::size_t kMaxReplacements = 1000;  // tried for one sample before next() throws
constexpr std::chrono::seconds kStopTimeout{10};

std::size_t bytes_of(const TransformOptions& transform) {
  const auto size = static_cast<std::size_t>(transform.image_size);
  return size * size * 3 * (transform.pixels == PixelType::u8 ? 1 : sizeof(float));
}

// So that every batch, and with usual sizes every image, starts on a cache line.
std::size_t padded(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

LoaderState::LoaderState(std::shared_ptr<const Dataset> dataset, const LoaderOptions& options)
    : dataset_(std::move(dataset)),
      options_(options),
      image_bytes_(bytes_of(options.transform)),
      memory_(nullptr, std::free),
      slots_(static_cast<std::size_t>(options.prefetch + kLent)) {
  allocate();
}

void LoaderState::allocate() {
  const auto batch = static_cast<std::size_t>(options_.batch_size);
  const std::size_t slot_bytes = padded(batch * image_bytes_);
  const std::size_t bytes = slot_bytes * slots_.size();
  memory_.reset(static_cast<std::byte*>(std::aligned_alloc(kAlignment, bytes)));
  if (!memory_)
    throw BackendError("Loader: no memory for " + std::to_string(slots_.size()) + " batches (" + std::to_string(bytes) +
                       " bytes); reduce prefetch or batch_size");
  std::memset(memory_.get(), 0, bytes);  // takes the page faults now
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    slots_[i].images = memory_.get() + i * slot_bytes;
    slots_[i].labels.resize(batch);
    slots_[i].indices.resize(batch);
    free_.push_back(&slots_[i]);
  }
}

void LoaderState::start_workers() {
  running_ = options_.workers;
  for (int i = 0; i < options_.workers; ++i) {
    try {
      workers_.emplace_back([self = shared_from_this()] { self->work(); });
    } catch (const std::system_error& error) {
      {
        const std::lock_guard lock(mutex_);
        running_ -= options_.workers - i;
      }
      stop();
      throw BackendError(std::string("Loader: cannot start a thread: ") + error.what());
    }
  }
}

void LoaderState::stop() noexcept {
  std::unique_lock lock(mutex_);
  stopping_ = true;
  to_do_.notify_all();
  const bool all_ended = ended_.wait_for(lock, kStopTimeout, [&] { return running_ == 0; });
  lock.unlock();
  for (std::thread& worker : workers_) all_ended ? worker.join() : worker.detach();
  workers_.clear();
}

void LoaderState::work() noexcept {
  std::exception_ptr death;
  try {
    SampleMaker maker(options_.transform, options_.seed);
    while (const std::optional<Task> task = claim()) run(maker, *task);
  } catch (...) {
    death = std::current_exception();
  }
  const std::lock_guard lock(mutex_);
  if (death) worker_death_ = death;
  --running_;
  ready_.notify_all();
  ended_.notify_all();
}

bool LoaderState::can_claim() const { return filling_ != nullptr || (opened_ < batches_ && !free_.empty()); }

std::optional<LoaderState::Task> LoaderState::claim() {
  std::unique_lock lock(mutex_);
  to_do_.wait(lock, [&] { return stopping_ || can_claim(); });  // ended by stop(), which every owner calls
  if (stopping_) return std::nullopt;
  if (filling_ == nullptr) open_slot();
  Slot& slot = *filling_;
  const std::int64_t position = slot.claimed++;
  if (slot.claimed == slot.count) filling_ = nullptr;
  return Task{&slot, position, indices_[static_cast<std::size_t>(slot.first + position)], epoch_};
}

void LoaderState::open_slot() {
  Slot& slot = *free_.back();
  free_.pop_back();
  slot.number = opened_++;
  slot.first = slot.number * options_.batch_size;
  slot.count = std::min(options_.batch_size, static_cast<std::int64_t>(indices_.size()) - slot.first);
  slot.claimed = 0;
  slot.finished = 0;
  slot.abandoned = false;
  slot.broken.clear();
  slot.error = nullptr;
  in_order_.push_back(&slot);
  filling_ = &slot;
  to_do_.notify_all();
}

void LoaderState::run(SampleMaker& maker, const Task& task) {
  std::vector<std::int64_t> broken;
  std::exception_ptr error;
  try {
    make_sample(maker, task, broken);
  } catch (...) {
    error = std::current_exception();
  }
  finish(*task.slot, broken, error);
}

bool LoaderState::try_sample(SampleMaker& maker, const Task& task, std::int64_t index,
                             std::vector<std::int64_t>& broken) {
  const auto place = static_cast<std::size_t>(task.position);
  std::string why;
  try {
    book_.decoded(index, maker.make(*dataset_, index, task.epoch, task.slot->images + place * image_bytes_));
    task.slot->labels[place] = dataset_->label(index);
    task.slot->indices[place] = index;
    return true;
  } catch (const BrokenImage& error) {
    why = error.what();
  } catch (const BackendError& unreadable) {
    why = unreadable.what();
  }
  book_.broken(index, why);
  broken.push_back(index);
  return false;
}

void LoaderState::make_sample(SampleMaker& maker, const Task& task, std::vector<std::int64_t>& broken) {
  if (try_sample(maker, task, task.index, broken)) return;
  book_.instead(options_.broken);
  if (options_.broken == BrokenSample::skip) {
    task.slot->indices[static_cast<std::size_t>(task.position)] = -1;
    return;
  }
  // ~index is never an index of the dataset, so this random sequence differs from that of every sample's crop.
  SampleRandom random(options_.seed, task.epoch, ~static_cast<std::uint64_t>(task.index));
  std::vector<std::int64_t> candidates = others_of_class(task.index);
  while (!candidates.empty() && broken.size() <= kMaxReplacements) {
    std::swap(candidates[static_cast<std::size_t>(random.below(static_cast<int>(candidates.size())))],
              candidates.back());
    if (try_sample(maker, task, candidates.back(), broken)) return;
    candidates.pop_back();
  }
  throw BackendError("Loader: no readable image in class " + dataset_->class_name(dataset_->label(task.index)) + ": " +
                     std::to_string(broken.size()) + " files tried, the first is " + dataset_->name(task.index) + " (" +
                     book_.broken_among({task.index}, *dataset_).front().what +
                     "). Repair the class's files or remove its folder");
}

std::vector<std::int64_t> LoaderState::others_of_class(std::int64_t index) {
  std::call_once(classes_listed_, [this] {
    for (std::int64_t i = 0; i < dataset_->size(); ++i) samples_of_class_[dataset_->label(i)].push_back(i);
  });
  std::vector<std::int64_t> others = samples_of_class_.at(dataset_->label(index));
  std::erase(others, index);
  return others;
}

void LoaderState::finish(Slot& slot, const std::vector<std::int64_t>& broken, std::exception_ptr error) {
  const std::lock_guard lock(mutex_);
  ++slot.finished;
  slot.broken.insert(slot.broken.end(), broken.begin(), broken.end());
  if (error && !slot.error) slot.error = std::move(error);
  if (slot.abandoned && slot.finished == slot.claimed) {
    free_.push_back(&slot);
    to_do_.notify_all();
  } else if (slot.finished == slot.count) {
    ready_.notify_all();
  }
}

void LoaderState::give_back(Slot& slot) {
  const std::lock_guard lock(mutex_);
  free_.push_back(&slot);
  to_do_.notify_all();
}

void LoaderState::start_epoch(std::int64_t epoch, std::vector<std::int64_t> indices) {
  const std::int64_t size = dataset_->size();
  for (const std::int64_t index : indices) {
    if (index < 0 || index >= size) {
      throw UsageError("Loader::start_epoch: index " + std::to_string(index) + " is outside the dataset of size " +
                       std::to_string(size));
    }
  }
  const std::lock_guard lock(mutex_);
  for (Slot* slot : in_order_) {
    slot->abandoned = true;
    if (slot->finished == slot->claimed) free_.push_back(slot);
  }
  in_order_.clear();
  filling_ = nullptr;
  indices_ = std::move(indices);
  epoch_ = static_cast<std::uint64_t>(epoch);
  const auto count = static_cast<std::int64_t>(indices_.size());
  batches_ = (count + (options_.drop_last ? 0 : options_.batch_size - 1)) / options_.batch_size;
  opened_ = 0;
  delivered_ = 0;
  read_ = 0;
  broken_.clear();
  to_do_.notify_all();
}

bool LoaderState::front_is_ready() const {
  return !in_order_.empty() && in_order_.front()->finished == in_order_.front()->count;
}

std::shared_ptr<const Batch> LoaderState::next() {
  std::unique_lock lock(mutex_);
  if (batches_ < 0) throw UsageError("Loader::next: call start_epoch() first");
  if (delivered_ == batches_) return nullptr;
  if (!ready_.wait_for(lock, options_.timeout, [&] { return front_is_ready() || worker_death_; })) throw_late();
  if (!front_is_ready()) std::rethrow_exception(worker_death_);
  Slot& slot = *in_order_.front();
  in_order_.pop_front();
  ++delivered_;
  read_ += slot.count;
  if (options_.broken == BrokenSample::replace) read_ += static_cast<std::int64_t>(slot.broken.size());
  broken_.insert(slot.broken.begin(), slot.broken.end());
  if (slot.error) {
    free_.push_back(&slot);
    to_do_.notify_all();
    std::rethrow_exception(std::exchange(slot.error, nullptr));
  }
  lock.unlock();
  return lend(slot);
}

void LoaderState::throw_late() const {
  std::string text = "Loader: batch " + std::to_string(delivered_) + " is not ready after " +
                     std::to_string(options_.timeout.count()) + " ms; ";
  if (in_order_.empty() && free_.empty()) {
    text += "the caller holds all " + std::to_string(slots_.size()) + " batches";
  } else if (in_order_.empty()) {
    text += "no worker has started it";
  } else {
    const Slot& slot = *in_order_.front();
    text += std::to_string(slot.finished) + " of its " + std::to_string(slot.count) + " samples are done";
  }
  throw TimeoutError({}, text);
}

std::shared_ptr<const Batch> LoaderState::lend(Slot& slot) {
  close_gaps(slot);
  slot.batch = {nullptr, nullptr, slot.labels.data(), slot.indices.data(), slot.count, slot.number};
  if (options_.transform.pixels == PixelType::u8) {
    slot.batch.bytes = reinterpret_cast<const std::uint8_t*>(slot.images);
  } else {
    slot.batch.images = reinterpret_cast<const float*>(slot.images);
  }
  return {&slot.batch, [self = shared_from_this(), &slot](const Batch*) { self->give_back(slot); }};
}

// Moves the samples behind skipped ones forward.
void LoaderState::close_gaps(Slot& slot) const {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(slot.count); ++i) {
    if (slot.indices[i] < 0) continue;
    if (kept != i) {
      std::memcpy(slot.images + kept * image_bytes_, slot.images + i * image_bytes_, image_bytes_);
      slot.labels[kept] = slot.labels[i];
      slot.indices[kept] = slot.indices[i];
    }
    ++kept;
  }
  slot.count = static_cast<std::int64_t>(kept);
}

EpochFiles LoaderState::epoch_files() const {
  const std::lock_guard lock(mutex_);
  return {read_, book_.broken_among(broken_, *dataset_)};
}

std::int64_t LoaderState::batches() const {
  const std::lock_guard lock(mutex_);
  return std::max<std::int64_t>(batches_, 0);
}

}  // namespace kolo::data
