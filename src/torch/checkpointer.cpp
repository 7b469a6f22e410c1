// The phases of a checkpoint. All ranks change the phase in the same step(): they agree by kBusy, a bit that travels
// with the gradients, that no rank is busy any more. If some ranks are idle and others are not, as after an exception
// on one rank between two steps, they give the checkpoint up.
//
//   idle        step() copies this rank's part        its thread writes it               kBusy until it is written
//   writing     step() gathers the lists of files     a publisher writes the manifest    kBusy until it is renamed
//   publishing  step() gathers the outcome            a publisher deletes old ones
//   idle
#include "kolo/torch/checkpointer.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <sstream>
#include <utility>
#include <vector>

#include "kolo/error.h"
#include "kolo/spi/engine.h"
#include "torch/agree_on_call.h"
#include "torch/background_jobs.h"
#include "torch/checkpoint_folder.h"
#include "torch/checkpoint_items.h"
#include "torch/checkpoint_restore.h"
#include "torch/checkpoint_snapshot.h"
#include "torch/claimed_notices.h"
#include "torch/failure_text.h"
#include "torch/rank_objects.h"
#include "torch/rank_reports.h"
#include "torch/stop_signals.h"

namespace kolo {
namespace {

using checkpoint::CheckpointDirectory;
using checkpoint::WrittenFile;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using torch::serialize::InputArchive;
using torch::serialize::OutputArchive;

enum Bit : RoundNotices::Bits { kBusy = 1, kDue = 2, kStop = 4, kIdlePhase = 8, kOtherPhase = 16 };

constexpr std::chrono::minutes kWriteLimit{30};  // finish() waits so long for a write
constexpr const char* kDifferentSteps =
    "ranks are in different steps. Do all ranks call step() after each optimizer step?";

void check_name(const std::string& name) {
  const auto allowed = [](unsigned char c) { return std::isalnum(c) != 0 || c == '-' || c == '_'; };
  if (!name.empty() && std::all_of(name.begin(), name.end(), allowed) && !name.starts_with("rank-")) return;
  throw UsageError("Checkpointer::add: the name '" + name +
                   "' must consist of letters, digits, '-' and '_', and not begin with 'rank-'");
}

std::string text_of(const CheckpointerOptions& options) {
  std::ostringstream text;
  text << "every " << options.every.steps() << " steps or " << options.every.time().count() << " ms, keep "
       << options.keep << ", keep_one_per " << options.keep_one_per.count() << " s, grace " << options.grace.count()
       << " ms, " << (options.stop_on == StopOn::signals ? "stops" : "does not stop") << " on signals";
  return text.str();
}

std::string trouble_with(const CheckpointerOptions& options) {
  if (options.every.steps() <= 0 && options.every.time().count() <= 0) {
    return "CheckpointerOptions: every must be a positive number of steps, or at least a millisecond";
  }
  return options.grace.count() < 0 ? "CheckpointerOptions: grace must be 0 or more" : "";
}

// The work of a rank's thread, and what it leaves; read when the thread is idle again.
struct CheckpointWrite {
  CheckpointSnapshot snapshot;
  CheckpointSnapshot::Written written{};
  std::string failure{};
  std::chrono::nanoseconds time{0};
};

}  // namespace

class Checkpointer::Impl {
 public:
  Impl(Context& context, std::filesystem::path folder, CheckpointerOptions options);

  void add(std::unique_ptr<CheckpointItem> item);
  void add_own(const std::string& name, Save save, Load load);
  // `settle` is called before the objects are copied.
  void before_copy(std::function<void()> settle) { before_copy_.push_back(std::move(settle)); }
  void add_model(const std::string& name, const std::function<NamedTensors()>& parameters);
  [[nodiscard]] NamesOfParameters names_of_parameters() const;
  std::int64_t restore();
  void step(std::int64_t done);
  int finish();
  void request_stop() noexcept { notices_.raise(kStop); }

  bool stop_requested = false;
  CheckpointCounts counts;

 private:
  enum class Phase { idle, writing, publishing };

  [[nodiscard]] bool is_due(std::optional<RoundNotices::Bits> bits);
  void begin(std::int64_t step);
  void skip(std::int64_t step);
  void advance();
  void collect_files();
  void publish(checkpoint::CheckpointInfo info, std::vector<WrittenFile> files);
  void collect_outcome();
  void fail(const std::string& reason);
  void complete();
  void look_for_stop_file();
  [[nodiscard]] bool has_time_to_write();
  void log(LogLevel level, const std::string& line) const;

  Context& context_;
  CheckpointerOptions options_;
  const ClaimedNotices claim_;
  RoundNotices& notices_ = claim_.get();
  std::optional<CheckpointFolder> folder_;  // empty: KOLO_SYNC=off
  std::vector<std::unique_ptr<CheckpointItem>> items_;
  RankObjects own_;
  std::vector<std::function<void()>> before_copy_;
  std::map<std::string, std::function<NamedTensors()>> models_;  // parameters of each

  std::optional<StopSignals> signals_;
  Clock::time_point looked_for_file_;
  Clock::time_point stopped_;  // when step() learned of the stop

  bool restored_ = false;
  std::optional<std::int64_t> done_;        // of the last step()
  std::optional<std::int64_t> last_saved_;  // begun, and not failed
  Clock::time_point last_due_;

  Phase phase_ = Phase::idle;
  std::int64_t step_ = 0;  // of the checkpoint in this phase, as the next ones
  std::uint64_t round_ = 0;
  std::string id_;
  std::int64_t begun_ = 0;                  // checkpoints of this run
  std::string failure_;                     // of this rank's copy
  std::shared_ptr<CheckpointWrite> write_;  // null: the copy failed
  std::shared_ptr<std::string> outcome_;    // of publishing: empty, or why it failed
  bool finite_ = true;                      // of all ranks
  std::string last_failure_;                // of the last checkpoint; empty: none
  std::shared_ptr<StagingBuffer> staging_ = std::make_shared<StagingBuffer>();
  BackgroundJobs jobs_;  // they own what they use
};

Checkpointer::Impl::Impl(Context& context, std::filesystem::path folder, CheckpointerOptions options)
    : context_(context),
      options_(std::move(options)),
      claim_(context_, text_of(options_), trouble_with(options_)),
      last_due_(Clock::now()),
      jobs_(context.config().timeout) {
  agree_on_call(context_, "Checkpointer", "", failure_of([&] {
                  const auto& file = options_.stop_file;
                  if (context_.rank() == 0 && !file.empty() && std::filesystem::exists(file)) {
                    throw UsageError("CheckpointerOptions::stop_file " + file.string() + " exists. Remove it first");
                  }
                  if (options_.stop_on == StopOn::signals) signals_.emplace(notices_, kStop);
                }));
  if (context_.config().sync || context_.size() == 1) {
    folder_.emplace(context_, std::move(folder),
                    checkpoint::CheckpointOptions{.keep = options_.keep, .keep_one_per = options_.keep_one_per});
  } else {
    log(LogLevel::warn, "checkpoint: none is written with KOLO_SYNC=off, because ranks train different weights");
  }
}

void Checkpointer::Impl::log(LogLevel level, const std::string& line) const {
  if (context_.rank() == 0) context_.log(level, line);
}

void Checkpointer::Impl::add(std::unique_ptr<CheckpointItem> item) {
  check_name(item->name());
  if (restored_) throw UsageError("Checkpointer::add: call it before restore()");
  for (const auto& other : items_) {
    if (other->name() == item->name()) throw UsageError("Checkpointer::add: the name '" + item->name() + "' is taken");
  }
  items_.push_back(std::move(item));
}

void Checkpointer::Impl::add_own(const std::string& name, Save save, Load load) {
  check_name(name);
  if (restored_) throw UsageError("Checkpointer::add: call it before restore()");
  own_.add(name, std::move(save), std::move(load));  // throws if the name is taken
}

void Checkpointer::Impl::add_model(const std::string& name, const std::function<NamedTensors()>& parameters) {
  models_.emplace(name, parameters);
  for (const auto& [parameter, tensor] : parameters()) {
    if (tensor.is_cuda()) own_.use_gpu(tensor.device());
  }
}

// Parameters of two models may have the same name.
NamesOfParameters Checkpointer::Impl::names_of_parameters() const {
  NamesOfParameters names;
  for (const auto& [model, parameters] : models_) {
    for (const auto& [name, tensor] : parameters()) {
      names.emplace(tensor.unsafeGetTensorImpl(), models_.size() == 1 ? name : model + "." + name);
    }
  }
  return names;
}

std::int64_t Checkpointer::Impl::restore() {
  if (std::exchange(restored_, true)) throw UsageError("Checkpointer::restore was called before");
  std::string objects;
  for (const auto& item : items_) objects += item->name() + " ";
  agree_on_call(context_, "Checkpointer::restore", "the objects " + objects + "and per rank " + own_.names(), "");
  if (!folder_) return 0;
  const auto restored =
      restore_checkpoint(context_, folder_->root(), items_, [this](const std::string& bytes) { own_.load(bytes); });
  last_due_ = Clock::now();
  if (!restored) return 0;
  if (context_.rank() == 0) {
    for (const auto& line : CheckpointDirectory::differences(restored->metadata, options_.settings)) {
      log(LogLevel::warn, "checkpoint: setting differs: " + line);
    }
  }
  last_saved_ = restored->step;
  return restored->step;
}

void Checkpointer::Impl::step(std::int64_t done) {
  if (!restored_) throw UsageError("Checkpointer::step: call restore() before the first step");
  done_ = done;
  const auto bits = notices_.take();
  if (bits && (*bits & kStop) != 0 && !std::exchange(stop_requested, true)) {
    stopped_ = Clock::now();
    log(LogLevel::info, "checkpoint: step=" + std::to_string(done) + " stop requested");
  }
  look_for_stop_file();
  if (!folder_) return;
  if (bits && (*bits & kIdlePhase) != 0 && (*bits & kOtherPhase) != 0) {
    if (phase_ != Phase::idle) fail(kDifferentSteps);
  } else if (phase_ != Phase::idle && bits && (*bits & kBusy) == 0) {
    advance();
  }
  if (is_due(bits)) phase_ == Phase::idle ? begin(done) : skip(done);
  if (phase_ != Phase::idle && jobs_.wait(milliseconds(0))) notices_.lower(kBusy);
  const bool idle = phase_ == Phase::idle;
  notices_.raise(idle ? kIdlePhase : kOtherPhase);
  notices_.lower(idle ? kOtherPhase : kIdlePhase);
}

void Checkpointer::Impl::look_for_stop_file() {
  if (context_.rank() != 0 || options_.stop_file.empty()) return;
  if (Clock::now() - looked_for_file_ < std::chrono::seconds(1)) return;
  looked_for_file_ = Clock::now();
  std::error_code ignored;
  if (std::filesystem::exists(options_.stop_file, ignored)) request_stop();
}

// By time: rank 0 asks, and a checkpoint is due when all ranks have heard it.
bool Checkpointer::Impl::is_due(std::optional<RoundNotices::Bits> bits) {
  if (options_.every.steps() > 0) return *done_ % options_.every.steps() == 0;
  const bool due = bits && (*bits & kDue) != 0;
  if (context_.rank() != 0) return due;
  if (due) {
    notices_.lower(kDue);
    last_due_ = Clock::now();
  } else if (Clock::now() - last_due_ >= options_.every.time()) {
    notices_.raise(kDue);
  }
  return due;
}

void Checkpointer::Impl::begin(std::int64_t step) {
  const auto start = Clock::now();
  context_.wait_for_devices();
  phase_ = Phase::writing;
  last_saved_ = step_ = step;
  round_ = notices_.rounds();
  id_ = folder_->run() + "-" + std::to_string(++begun_);  // a new folder also for the same step
  write_.reset();
  failure_ = failure_of([&] {
    for (const auto& settle : before_copy_) settle();
    CheckpointSnapshot snapshot(items_, context_.rank(), context_.size(), *staging_);
    snapshot.add_file(rank_file(context_.rank()), own_.save());
    counts.bytes = snapshot.bytes();
    write_ = std::make_shared<CheckpointWrite>(CheckpointWrite{std::move(snapshot)});
  });
  counts.blocked = Clock::now() - start;
  if (write_ == nullptr) return;
  notices_.raise(kBusy);
  jobs_.post([write = write_, staging = staging_, root = folder_->root(), id = id_] {
    const auto begun = Clock::now();
    write->failure =
        failure_of([&] { write->written = write->snapshot.write(CheckpointDirectory(root).create_part_folder(id)); });
    write->time = Clock::now() - begun;
  });
}

void Checkpointer::Impl::skip(std::int64_t step) {
  ++counts.skipped;
  log(LogLevel::warn, "checkpoint: step=" + std::to_string(step) + " skipped=" + std::to_string(counts.skipped) +
                          ": the checkpoint of step " + std::to_string(step_) + " is still being written");
}

void Checkpointer::Impl::advance() { phase_ == Phase::writing ? collect_files() : collect_outcome(); }

void Checkpointer::Impl::collect_files() {
  RankReport mine{.failure = failure_, .round = round_, .step = step_, .host = context_.placement().cross_rank};
  if (write_ != nullptr) {
    counts.writing = write_->time;
    mine.failure = write_->failure;
    mine.layout = write_->snapshot.layout();
    mine.finite = write_->written.finite;
    mine.files = write_->written.files;
  }
  ReportSummary all = summarize(gather_texts(context_, "Checkpointer: files", to_text(mine)),
                                [this](int host) { return folder_->holds_files_of(host); });
  if (!all.failure.empty()) return fail(all.failure);
  checkpoint::CheckpointInfo info;
  info.finite = all.finite;
  publish(std::move(info), std::move(all.files));
}

void Checkpointer::Impl::publish(checkpoint::CheckpointInfo info, std::vector<WrittenFile> files) {
  phase_ = Phase::publishing;
  finite_ = info.finite;
  outcome_ = std::make_shared<std::string>();
  if (!folder_->publishes()) return;
  info.step = step_;
  info.metadata = options_.settings;
  info.metadata[kIdEntry] = id_;
  info.metadata[kPartEntry] = std::to_string(folder_->part());
  info.metadata[kPartsEntry] = std::to_string(folder_->parts());
  notices_.raise(kBusy);
  jobs_.post([directory = folder_->directory(), outcome = outcome_, info = std::move(info), files = std::move(files),
              id = id_] { *outcome = failure_of([&] { (void)directory->commit(info, id, files); }); });
}

void Checkpointer::Impl::collect_outcome() {
  const auto failures = gather_texts(context_, "Checkpointer: outcome", *outcome_);
  for (std::size_t rank = 0; rank < failures.size(); ++rank) {
    if (!failures[rank].empty()) return fail("rank " + std::to_string(rank) + " failed " + failures[rank]);
  }
  ++counts.written;
  last_failure_.clear();
  phase_ = Phase::idle;
  using Milliseconds = std::chrono::duration<double, std::milli>;
  std::ostringstream line;
  line << "checkpoint: step=" << step_ << " written=" << counts.written
       << " blocked_ms=" << Milliseconds(counts.blocked).count()
       << " writing_ms=" << Milliseconds(counts.writing).count() << " bytes=" << counts.bytes;
  if (!finite_) line << " finite=0";
  log(finite_ ? LogLevel::info : LogLevel::warn, line.str());
  if (!folder_->publishes()) return;
  jobs_.post([directory = folder_->directory(), step = step_] {
    (void)failure_of([&] { directory->prune(directory->folder_of(step)); });  // the next one tries again
  });
}

void Checkpointer::Impl::fail(const std::string& reason) {
  ++counts.failed;
  last_failure_ =
      "checkpoint: step=" + std::to_string(step_) + " failed=" + std::to_string(counts.failed) + ": " + reason;
  log(LogLevel::warn, last_failure_);
  last_saved_.reset();
  phase_ = Phase::idle;
  if (!folder_->publishes()) return;
  jobs_.post([directory = folder_->directory(), id = id_] {
    directory->discard(id);
    // Another host may have failed to publish its part.
    (void)failure_of([&] {
      for (const auto& each : directory->list()) {
        const auto found = each.info.metadata.find(kIdEntry);
        if (found != each.info.metadata.end() && found->second == id) directory->remove(each.folder);
      }
    });
  });
}

// Ranks wait in slices, so that the gather of a rank whose disk is fast does not time out. Returns when all are idle.
void Checkpointer::Impl::complete() {
  const auto limit = Clock::now() + kWriteLimit;
  const auto slice = std::clamp<milliseconds>(context_.config().timeout / 4, milliseconds(1), milliseconds(1000));
  for (;;) {
    std::string mine = "idle";
    if (phase_ != Phase::idle) mine = jobs_.wait(slice) ? "ready" : Clock::now() < limit ? "busy" : "late";
    const auto states = gather_texts(context_, "Checkpointer::finish", mine);
    const auto count = [&](const char* state) { return std::count(states.begin(), states.end(), state); };
    if (count("idle") == context_.size()) break;
    if (count("late") > 0) {
      const auto rank = static_cast<Rank>(std::find(states.begin(), states.end(), "late") - states.begin());
      throw TimeoutError({rank}, "Checkpointer::finish: rank " + std::to_string(rank) + " has not written step " +
                                     std::to_string(step_) + " to " + folder_->root().string() + " within 30 min");
    }
    if (count("ready") == context_.size()) {
      advance();
    } else if (count("idle") > 0 && phase_ != Phase::idle) {
      fail(kDifferentSteps);
    }
  }
  notices_.lower(kBusy);
}

// Of all ranks, the one with the least time decides.
bool Checkpointer::Impl::has_time_to_write() {
  if (!stop_requested || options_.grace.count() == 0) return true;
  const auto since = signals_ && signals_->any() ? signals_->since_first() : Clock::now() - stopped_;
  const bool enough = since + counts.blocked + counts.writing < options_.grace;
  const auto short_of_time = gather_texts(context_, "Checkpointer: grace", enough ? "" : "short");
  if (std::all_of(short_of_time.begin(), short_of_time.end(), [](const auto& text) { return text.empty(); }))
    return true;
  log(LogLevel::warn, "checkpoint: step=" + std::to_string(*done_) + " not written: the grace period is too short");
  return false;
}

int Checkpointer::Impl::finish() {
  if (!restored_) throw UsageError("Checkpointer::finish: call restore() first");
  const int status = stop_requested ? kStoppedStatus : 0;
  if (!folder_) return status;
  complete();
  if (done_ && done_ != last_saved_ && has_time_to_write()) {
    begin(*done_);
    complete();
  }
  if (!last_failure_.empty()) throw BackendError(last_failure_);
  (void)jobs_.wait(context_.config().timeout / 4);  // old checkpoints are deleted before the process ends
  return status;
}

Checkpointer::Checkpointer(Context& context, std::filesystem::path folder, CheckpointerOptions options)
    : impl_(std::make_unique<Impl>(context, std::move(folder), std::move(options))) {}

Checkpointer::~Checkpointer() = default;

void Checkpointer::add_model(const std::string& name, ListTensors parameters, ListTensors all) {
  impl_->add(make_model_item(name, parameters, std::move(all)));
  impl_->add_model(name, parameters);
}

void Checkpointer::add(const std::string& name, torch::optim::Optimizer& optimizer) {
  impl_->add(make_optimizer_item(name, optimizer, [impl = impl_.get()] { return impl->names_of_parameters(); }));
}

void Checkpointer::add(const std::string& name, DistributedSampler& sampler) {
  const auto save = [&sampler](OutputArchive& archive) {
    archive.write("epoch", c10::IValue(static_cast<std::int64_t>(sampler.epoch())));
    archive.write("cursor", c10::IValue(sampler.cursor()));
  };
  const auto load = [&sampler](InputArchive& archive) {
    c10::IValue epoch;
    c10::IValue cursor;
    archive.read("epoch", epoch);
    archive.read("cursor", cursor);
    sampler.restore(static_cast<std::uint64_t>(epoch.toInt()), cursor.toInt());
  };
  add_object(name, save, load, false);
}

void Checkpointer::add(const std::string& name, GradScaler& scaler) {
  const auto save = [&scaler](OutputArchive& archive) {
    const GradScaler::State& state = scaler.state();
    archive.write("scale", c10::IValue(state.scale));
    archive.write("good_steps", c10::IValue(state.good_steps));
  };
  const auto load = [&scaler](InputArchive& archive) {
    c10::IValue scale;
    c10::IValue good_steps;
    archive.read("scale", scale);
    archive.read("good_steps", good_steps);
    scaler.load({scale.toDouble(), good_steps.toInt()});
  };
  add_object(name, save, load, false);
  impl_->before_copy([&scaler] { (void)scaler.state(); });  // then optimizers have their state, too
}

void Checkpointer::add_object(const std::string& name, Save save, Load load, bool each_rank) {
  if (each_rank) {
    impl_->add_own(name, std::move(save), std::move(load));
  } else {
    impl_->add(make_archive_item(name, std::move(save), std::move(load)));
  }
}

std::int64_t Checkpointer::restore() { return impl_->restore(); }
void Checkpointer::step(std::int64_t done) { impl_->step(done); }
void Checkpointer::request_stop() noexcept { impl_->request_stop(); }
bool Checkpointer::stop_requested() const noexcept { return impl_->stop_requested; }
int Checkpointer::finish() { return impl_->finish(); }
const CheckpointCounts& Checkpointer::counts() const noexcept { return impl_->counts; }

}  // namespace kolo
