#include "trainer.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <torch/version.h>

#include <algorithm>
#include <chrono>
#include <optional>

#include "batch_source.h"
#include "compute.h"
#include "datasets.h"
#include "evaluate.h"
#include "file_report.h"
#include "kolo/error.h"
#include "kolo/torch/broadcast.h"
#include "kolo/torch/distributed_optimizer.h"
#include "kolo/torch/grad_scaler.h"
#include "loss_watch.h"
#include "optimizer.h"
#include "process.h"
#include "ranks.h"
#include "report.h"
#include "resnet.h"
#include "schedule.h"
#include "snapshot.h"
#include "step_log.h"
#include "totals.h"

namespace imagenet {
namespace {

using Clock = std::chrono::steady_clock;

double milliseconds(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double, std::milli>(to - from).count();
}

// The loader has half as many threads as this rank has cores: OMP_NUM_THREADS says nothing of it.
Options with_threads_chosen(Options options, const kolo::Placement& placement) {
  if (options.threads == 0) options.threads = placement.threads;
  if (options.workers == 0) options.workers = std::max(1, placement.local_cores / placement.local_size / 2);
  return options;
}

void settle(Choice& choice, bool possible) {
  if (choice == Choice::where_possible) choice = possible ? Choice::on : Choice::off;
}

Options with_choices_made(Options options, const kolo::Communicator& communicator) {
  if (communicator.size() == 1)
    options.shared_gradients = options.overlap_update = Choice::off;  // nobody is waited for
  const bool on_host = options.sync && options.device == DeviceKind::cpu;
  settle(options.shared_gradients, on_host && communicator.can_scatter());
  settle(options.overlap_update, on_host && may_overlap(options));
  return options;
}

class Trainer {
 public:
  // `directory`: of checkpoints, on rank 0.
  Trainer(kolo::Context& context, const Options& options, kolo::checkpoint::CheckpointDirectory* directory)
      : context_(context),
        options_(options),
        directory_(directory),
        reporter_(context.rank() == 0, options.check ? "" : options.json, !options.resume.empty()),
        compute_(make_compute(context, options)),
        data_(open_datasets(context, options)),
        source_(make_source(context, options, Part::train, compute_.device, data_.train)),
        validation_(make_source(context, options, Part::validation, compute_.device, data_.validation)),
        schedule_(make_schedule(options, options.batch * context.size())),
        log_(context, reporter_, options.batch * context.size()),
        loss_watch_(context, reporter_, options.on_nan) {
    if (options_.classes == 0) options_.classes = source_->classes();
    if (options_.classes < source_->classes()) {
      throw kolo::UsageError("--classes is smaller than the number of classes in --data");
    }
    make_model();
  }

  // `notice`: for the user, on rank 0.
  void run(const std::string& notice) {
    reporter_.header(options_, context_.placement(), TORCH_VERSION);
    if (!notice.empty()) reporter_.note("warning: " + notice);
    warn_about_binding();
    for (const auto& line : data_.notes) reporter_.note(line);
    if (!options_.resume.empty()) say_where_it_goes_on();
    if (!options_.resume.empty() && position_.epoch >= options_.epochs) validate_again();
    if (options_.check) {
      reporter_.note(check_result());
      return;
    }
    while (!done()) {
      EpochRecord record = train_epoch();
      record.whole = position_.step_in_epoch == source_->steps();
      if (record.whole) {
        ++position_.epoch;
        position_.step_in_epoch = position_.done_before = 0;
      }
      if (options_.sync) average_statistics(context_, *model_);
      check_weights();
      if (!options_.checkpoint_dir.empty()) {
        if (scaler_) position_.scaler = scaler_->state();
        reporter_.note("checkpoint: " + save_snapshot(context_, directory_, options_, data_.fingerprint, position_,
                                                      *model_, *optimizer_));
      }
      FilesOfParts files{{"train", source_->epoch_files()}};
      if (record.whole && validation_) {
        validate(record);
        files.emplace_back("val", validation_->epoch_files());
      }
      warn_about_damage(record.epoch);
      reporter_.epoch(record, options_.epochs);
      check_broken(context_, files, record.epoch, options_.max_broken);
    }
    finish();
  }

 private:
  void make_model();
  EpochRecord train_epoch();
  // One step; its loss, how many images it got right, and of how many, are added to `sums`. The step's loss is left in
  // `device_loss` where it is not on the host yet.
  StepRecord train_step(const Batch& batch, Totals& sums, at::Tensor& device_loss);
  // The weights, from the gradients that backward has left.
  void update(StepRecord& record);
  // As they come.
  void update_while_waiting(StepRecord& record);
  // Whether the numbers of the step that is being taken are reported at once.
  [[nodiscard]] bool is_reported() const;
  // The step of this epoch behind which it ends, or --steps does.
  [[nodiscard]] std::int64_t last_step_in_epoch() const;
  // Throws, or warns, if a weight or a BatchNorm statistic is not finite.
  void check_weights();
  void validate(EpochRecord& record);
  // Of the weights that were resumed: the run that wrote them may have ended before its validation.
  void validate_again();
  void warn_about_binding();
  void warn_about_damage(std::int64_t epoch);
  [[nodiscard]] std::vector<kolo::data::LoaderReport> loader_reports() const;
  void say_where_it_goes_on();
  [[nodiscard]] std::string check_result() const;
  void finish();
  [[nodiscard]] bool done() const { return position_.epoch >= options_.epochs || stopped(); }
  [[nodiscard]] bool stopped() const { return options_.steps > 0 && position_.step >= options_.steps; }

  kolo::Context& context_;
  Options options_;
  kolo::checkpoint::CheckpointDirectory* directory_;
  Reporter reporter_;
  Compute compute_;
  Datasets data_;
  std::unique_ptr<BatchSource> source_;
  std::unique_ptr<BatchSource> validation_;  // null: nothing to validate on
  Schedule schedule_;
  StepLog log_;
  LossWatch loss_watch_;
  Position position_;
  DamageReport damage_;
  std::shared_ptr<ResNet> model_;
  std::shared_ptr<torch::optim::Optimizer> optimizer_;
  std::optional<kolo::DistributedOptimizer> distributed_;  // empty when ranks train alone
  std::optional<kolo::GradScaler> scaler_;                 // with fp16
};

void Trainer::make_model() {
  at::manual_seed(options_.seed);
  model_ = std::make_shared<ResNet>(options_.arch, options_.classes, options_.zero_init_residual);
  if (options_.channels_last) use_channels_last(*model_);
  if (compute_.device.is_cpu()) {
    use_onednn(*model_);
  } else {
    move_to_device(*model_, compute_.device);
  }
  if (options_.amp == Amp::fp16) scaler_ = options_.sync ? kolo::GradScaler(context_) : kolo::GradScaler();
  optimizer_ = make_optimizer(options_, *model_);
  if (!options_.sync) return;
  if (options_.resume.empty()) {
    kolo::broadcast_parameters(context_, *model_);
  } else {
    position_ = load_snapshot(context_, options_, data_.fingerprint, *model_, *optimizer_);
    if (scaler_ && position_.scaler) scaler_->load(*position_.scaler);
  }
  kolo::DistributedOptions distribution;
  distribution.shared_gradients = options_.shared_gradients == Choice::on;
  distribution.overlap_update = options_.overlap_update == Choice::on;
  distributed_.emplace(context_, optimizer_, model_->named_parameters(), distribution);
}

EpochRecord Trainer::train_epoch() {
  model_->train();
  source_->begin(position_.epoch, position_.step_in_epoch, position_.done_before);
  if (position_.step_in_epoch > source_->steps()) {
    throw kolo::UsageError("--resume: the checkpoint is at step " + std::to_string(position_.step_in_epoch) +
                           " of its epoch, but --data has only " + std::to_string(source_->steps()) +
                           " steps. Was the checkpoint written with another dataset?");
  }
  Totals totals(compute_.device, 3);  // loss, right, images
  // On CPUs with --sync the loss is checked in each step; otherwise when steps are reported.
  const bool watch_each_step = options_.sync && compute_.device.is_cpu();
  const auto epoch_start = Clock::now();
  for (Batch batch; !stopped() && position_.step_in_epoch < source_->steps();) {
    const auto start = Clock::now();
    const auto faults = minor_faults();
    if (!source_->next(batch)) throw kolo::Error("the training data ended before the epoch did");
    const auto loaded = Clock::now();
    at::Tensor device_loss;
    StepRecord record = train_step(batch, totals, device_loss);
    record.data_ms = milliseconds(start, loaded);
    const bool reported = is_reported();
    if (reported) wait_for(compute_.device);
    record.step_ms = milliseconds(start, Clock::now());
    record.page_faults = static_cast<double>(minor_faults() - faults);
    log_.add(record, device_loss);
    std::string stop;
    if (watch_each_step) stop = loss_watch_.check(record.step, {&record.loss, 1});
    ++position_.step;
    ++position_.step_in_epoch;
    if (reported || !stop.empty()) {
      const std::vector<double> losses = log_.flush();
      const auto first = position_.step - static_cast<std::int64_t>(losses.size());
      if (!watch_each_step) stop = loss_watch_.check(first, losses);
    }
    if (!stop.empty()) throw kolo::Error(stop);
    reporter_.position(position_.epoch, options_.epochs, position_.step_in_epoch, last_step_in_epoch());
  }
  EpochRecord record;
  record.seconds = milliseconds(epoch_start, Clock::now()) / 1000;
  std::vector<double> sums = totals.read();
  sum_over_ranks(context_, sums);
  record.epoch = position_.epoch;
  record.images = static_cast<std::int64_t>(sums[2]);
  record.train_loss = sums[0] / std::max(sums[2], 1.0);
  record.train_top1 = sums[1] / std::max(sums[2], 1.0);
  return record;
}

bool Trainer::is_reported() const {
  const std::int64_t step = position_.step + 1, step_in_epoch = position_.step_in_epoch + 1;
  return step == 1 || step_in_epoch % options_.log_interval == 0 || step_in_epoch == last_step_in_epoch();
}

std::int64_t Trainer::last_step_in_epoch() const {
  const std::int64_t steps = source_->steps();
  return options_.steps > 0 ? std::min(steps, position_.step_in_epoch + options_.steps - position_.step) : steps;
}

StepRecord Trainer::train_step(const Batch& batch, Totals& sums, at::Tensor& device_loss) {
  // In steps of this run's size.
  const double before = static_cast<double>(position_.done_before) / (options_.batch * context_.size());
  const double steps = before + static_cast<double>(source_->steps());
  const double epoch =
      static_cast<double>(position_.epoch) + (before + static_cast<double>(position_.step_in_epoch)) / steps;
  StepRecord record;
  record.step = position_.step;
  record.epoch = position_.epoch;
  record.lr = schedule_.learning_rate(epoch, steps);
  set_learning_rate(*optimizer_, record.lr);

  const auto start = Clock::now();
  const at::Tensor logits = logits_of(compute_, *model_, batch.images);
  const at::Tensor loss =
      at::cross_entropy_loss(logits, batch.labels, {}, at::Reduction::Mean, -100, options_.label_smoothing);
  record.forward_ms = milliseconds(start, Clock::now());
  if (scaler_) {
    record.loss_scale = scaler_->state().scale;
    scaler_->scale(loss).backward();
  } else {
    loss.backward();
  }
  update(record);
  const at::NoGradGuard no_grad;
  const auto count = static_cast<double>(batch.labels.size(0));
  if (compute_.device.is_cpu()) {
    record.loss = loss.item<double>();
  } else {
    device_loss = loss.detach();
  }
  sums.add(0, loss, count);
  sums.add(1, logits.argmax(1).eq(batch.labels).sum());
  sums.add(2, count);
  return record;
}

void Trainer::update(StepRecord& record) {
  if (options_.overlap_update == Choice::on) {
    update_while_waiting(record);
    return;
  }
  auto gradients_ready = Clock::now();
  if (distributed_) {
    distributed_->synchronize();
    record.exposed_ms = milliseconds(gradients_ready, Clock::now());
    gradients_ready = Clock::now();
  }
  if (scaler_) {
    if (distributed_) {
      scaler_->step_async(*distributed_);
    } else {
      scaler_->step(*optimizer_);
    }
    scaler_->update();
  } else if (distributed_) {
    distributed_->step();
  } else {
    optimizer_->step();
  }
  optimizer_->zero_grad();
  record.update_ms = milliseconds(gradients_ready, Clock::now());
}

void Trainer::update_while_waiting(StepRecord& record) {
  const auto start = Clock::now();
  const std::uint64_t waited = context_.counters().at("wait_ns");
  distributed_->step();
  optimizer_->zero_grad();
  record.exposed_ms = 1e-6 * static_cast<double>(context_.counters().at("wait_ns") - waited);
  record.update_ms = milliseconds(start, Clock::now()) - record.exposed_ms;
}

void Trainer::check_weights() {
  const std::string state = non_finite_state(context_, *model_);
  position_.finite = state.empty();
  if (state.empty()) return;
  const std::string text = "after " + std::to_string(position_.step) + " steps " + state;
  if (options_.on_nan == OnNan::stop) {
    throw kolo::Error(text +
                      ". Lower --lr or check the data, then resume from the last checkpoint; --on-nan warn ignores it");
  }
  reporter_.note("warning: " + text);
}

void Trainer::validate(EpochRecord& record) {
  const Evaluation result = evaluate(context_, compute_, *model_, *validation_);
  record.validated = true;
  record.val_loss = result.loss;
  record.top1 = result.top1;
  record.top5 = result.top5;
  record.val_images = result.images;
}

void Trainer::validate_again() {
  if (!validation_ || options_.check) return;
  EpochRecord record;
  validate(record);
  reporter_.validation(record);
}

void Trainer::warn_about_binding() {
  for (const auto& warning :
       gather(context_, binding_warning(context_.placement().local_size, options_.threads, options_.workers))) {
    if (warning.empty()) continue;
    reporter_.note("warning: " + warning);
    return;
  }
}

void Trainer::say_where_it_goes_on() {
  for (const auto& line : position_.warnings) reporter_.note("warning: " + line);
  reporter_.note("resumed from " + options_.resume + " at step " + std::to_string(position_.step));
  const std::int64_t global_batch = std::int64_t{options_.batch} * context_.size();
  if (position_.done_before > 0 && position_.old_global_batch != global_batch && !done()) {
    reporter_.note("warning: the global batch changed from " + std::to_string(position_.old_global_batch) + " to " +
                   std::to_string(global_batch) + ". Epoch " + std::to_string(position_.epoch + 1) +
                   " resumes after its first " + std::to_string(position_.done_before) +
                   " images; its last batch may be smaller");
  }
  if (done()) {
    reporter_.note("nothing left to do");
  } else if (options_.checkpoint_dir.empty()) {
    reporter_.note("warning: without --checkpoint-dir nothing of what follows is kept");
  }
}

std::string Trainer::check_result() const {
  const auto images = [](const DatasetPtr& dataset) { return std::to_string(dataset->size()); };
  std::string text = "check: " + std::to_string(context_.size()) + " ranks have equal options";
  if (data_.train) text += ", " + images(data_.train) + " training images with equal names";
  if (data_.validation) text += ", " + images(data_.validation) + " validation images with equal names";
  return text + ", " + std::to_string(options_.classes) + " classes";
}

std::vector<kolo::data::LoaderReport> Trainer::loader_reports() const {
  const auto named = [](kolo::data::LoaderReport report, const std::string& part) {
    for (auto* files : {&report.broken, &report.converted}) {
      for (auto& file : *files) file.name.insert(0, part);
    }
    return report;
  };
  std::vector<kolo::data::LoaderReport> reports{named(source_->report(), "train/")};
  if (validation_) reports.push_back(named(validation_->report(), "val/"));
  return reports;
}

void Trainer::warn_about_damage(std::int64_t epoch) {
  std::string prefix = "warning: epoch " + std::to_string(epoch + 1) + ": ";
  for (const auto& line : damage_.next(context_, loader_reports())) {
    reporter_.note(prefix + line);
    prefix.clear();
  }
}

void Trainer::finish() {
  kolo::CounterSnapshot counters = context_.counters();
  counters["minor_page_faults"] = minor_faults();
  for (const auto& line : report_files(context_, loader_reports(), counters)) reporter_.note(line);
  reporter_.counters(counters);
}

}  // namespace

void train(kolo::Context& context, Options options) {
  options = with_threads_chosen(std::move(options), context.placement());
  options = with_choices_made(std::move(options), context.communicator());
  at::set_num_threads(options.threads);
  std::string notice;
  std::unique_ptr<kolo::checkpoint::CheckpointDirectory> directory;
  if (!options.checkpoint_dir.empty() && !options.check) directory = prepare_checkpoint_dir(context, options, notice);
  Trainer(context, options, directory.get()).run(notice);
}

}  // namespace imagenet
