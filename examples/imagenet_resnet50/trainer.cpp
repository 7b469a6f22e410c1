// Trains a ResNet on ImageNet-like data, one process for each rank:
//
//   mpirun -np 2 imagenet_resnet50 --data DIR            the classic 90-epoch recipe
//   imagenet_resnet50 --help
//
// The file reads from top to bottom: Trainer() opens the data and makes model and optimizer, run() has the epochs,
// train_epoch() the steps, train_step() forward, backward and update. Then come evaluation, checkpoints and messages;
// main() is at the end. Comments that begin with "kolo:" mark the lines that make a LibTorch program data parallel.
#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <iostream>
#include <memory>
#include <optional>
#include <string>

#include "checkpoints.h"
#include "data.h"
#include "kolo/context.h"
#include "kolo/error.h"
#include "kolo/spi/communicator.h"
#include "kolo/torch/broadcast.h"
#include "kolo/torch/distributed_optimizer.h"
#include "kolo/torch/grad_scaler.h"
#include "model.h"
#include "options.h"
#include "ranks.h"
#include "report.h"

namespace imagenet {
namespace {

using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// Replaces 0 and `automatic` by values for this run.
Options resolve(Options options, kolo::Context& context) {
  const kolo::Placement& placement = context.placement();
  if (options.threads == 0) options.threads = placement.threads;
  if (options.workers == 0) options.workers = std::max(1, placement.local_cores / placement.local_size / 2);
  const bool several = context.size() > 1;
  const bool reduces_on_cpu = several && options.sync && options.device == DeviceKind::cpu;
  const auto settle = [&](Choice& choice, bool possible) {
    if (choice == Choice::automatic) choice = possible ? Choice::on : Choice::off;
    if (!several) choice = Choice::off;
  };
  settle(options.shared_gradients, reduces_on_cpu && context.communicator().supports_segmented());
  settle(options.overlap_update, reduces_on_cpu && can_overlap(options));
  return options;
}

class Trainer {
 public:
  // REQUIRES: options from resolve().
  Trainer(kolo::Context& context, const Options& options);
  void run();

 private:
  void make_model();
  EpochRecord train_epoch();
  // Takes one step and adds loss, correct images and images to `totals`.
  bool next(Batch& batch);
  StepRecord train_step(const Batch& batch, Totals& totals);
  void update(StepRecord& record);
  void update_while_reducing(StepRecord& record);
  [[nodiscard]] double current_learning_rate() const;
  void log_step(const StepRecord& record, bool reported);
  void evaluate(EpochRecord& record);
  void check_weights();
  void save();

  void print_header();
  void print_resume_position();
  void print_check_result();
  void warn_about_damage(std::int64_t epoch);
  [[nodiscard]] kolo::data::LoaderReport loader_report() const;
  void finish();

  [[nodiscard]] bool done() const { return position_.epoch >= options_.epochs || reached_steps(); }
  [[nodiscard]] bool reached_steps() const { return options_.steps > 0 && position_.step >= options_.steps; }
  // The step at which the current epoch, or --steps, ends.
  [[nodiscard]] std::int64_t last_step_in_epoch() const;
  [[nodiscard]] int global_batch() const { return options_.batch * context_.size(); }
  [[nodiscard]] RunState state() const { return {options_, data_.fingerprint, *model_, *optimizer_}; }

  kolo::Context& context_;
  Options options_;
  std::string lock_notice_;
  std::unique_ptr<kolo::checkpoint::CheckpointDirectory> directory_;  // on rank 0, with --checkpoint-dir
  Reporter reporter_;
  StepLog log_;
  LossWatch loss_watch_;
  DamageReport damage_;
  Compute compute_;
  Datasets data_;
  std::unique_ptr<BatchSource> source_;
  std::unique_ptr<BatchSource> validation_;  // null: no validation images
  std::shared_ptr<ResNet> model_;
  std::shared_ptr<torch::optim::Optimizer> optimizer_;
  std::optional<kolo::DistributedOptimizer> distributed_;  // empty with --sync off
  std::optional<kolo::GradScaler> scaler_;                 // with --amp fp16
  Position position_;
};

// --- setup --------------------------------------------------------------------------------------------------------

Trainer::Trainer(kolo::Context& context, const Options& options)
    : context_(context),
      options_(options),
      directory_(options.checkpoint_dir.empty() || options.check
                     ? nullptr
                     : prepare_checkpoint_dir(context, options, lock_notice_)),
      reporter_(context.rank() == 0, options.check ? "" : options.json, /*append=*/!options.resume.empty()),
      log_(context, reporter_, global_batch()),
      loss_watch_(context, reporter_, options.on_nan),
      compute_(make_compute(context, options)),
      data_(open_datasets(context, options)),
      source_(make_source(context, options, Part::train, compute_.device, data_.train)),  // kolo: a share for each rank
      validation_(make_source(context, options, Part::validation, compute_.device, data_.validation)) {
  if (options_.classes == 0) options_.classes = source_->classes();
  if (options_.classes < source_->classes()) {
    throw kolo::UsageError("--classes is " + std::to_string(options_.classes) + ", but --data has " +
                           std::to_string(source_->classes()) + " classes. Raise --classes or leave it out");
  }
  make_model();
}

void Trainer::make_model() {
  at::manual_seed(options_.seed);
  model_ = std::make_shared<ResNet>(options_.arch, options_.classes, options_.zero_init_residual);
  if (options_.channels_last) use_channels_last(*model_);
  if (compute_.device.is_cpu()) {
    use_onednn(*model_);
  } else {
    move_to_device(*model_, compute_.device);
  }
  optimizer_ = make_optimizer(options_, *model_);
  if (options_.amp == Amp::fp16) scaler_ = options_.sync ? kolo::GradScaler(context_) : kolo::GradScaler();
  if (!options_.sync) return;
  if (options_.resume.empty()) {
    kolo::broadcast_parameters(context_, *model_);  // kolo: all ranks start with the same weights
  } else {
    position_ = load_checkpoint(context_, state());
    if (scaler_ && position_.scaler) scaler_->load(*position_.scaler);
  }
  kolo::DistributedOptions distribution;
  distribution.shared_gradients = options_.shared_gradients == Choice::on;
  distribution.overlap_update = options_.overlap_update == Choice::on;
  // kolo: reduces gradients during backward
  distributed_.emplace(context_, optimizer_, model_->named_parameters(), distribution);
}

// --- training -----------------------------------------------------------------------------------------------------

void Trainer::run() {
  print_header();
  if (options_.check) {
    print_check_result();
    return;
  }
  if (validation_ && position_.epoch >= options_.epochs) {
    EpochRecord record;  // the run that saved these weights may have ended before their validation
    evaluate(record);
    reporter_.validation(record);
  }
  while (!done()) {
    EpochRecord record = train_epoch();
    if (options_.sync) average_statistics(context_, *model_);  // kolo: of BatchNorm
    check_weights();
    save();
    kolo::data::EpochFiles files = source_->epoch_files();
    if (record.whole && validation_) {
      evaluate(record);
      const kolo::data::EpochFiles more = validation_->epoch_files();
      files.read += more.read;
      files.broken.insert(files.broken.end(), more.broken.begin(), more.broken.end());
    }
    warn_about_damage(record.epoch);
    reporter_.epoch(record, options_.epochs);
    check_broken(context_, files, record.epoch, options_.max_broken);
  }
  finish();
}

EpochRecord Trainer::train_epoch() {
  model_->train();
  source_->begin(position_.epoch, position_.step_in_epoch, position_.done_before);
  EpochRecord epoch;
  epoch.epoch = position_.epoch;
  Totals totals(compute_.device, 3);  // loss, correct images, images
  const auto epoch_start = Clock::now();
  for (Batch batch; !reached_steps() && position_.step_in_epoch < source_->steps();) {
    const auto start = Clock::now();
    const auto faults = minor_faults();
    if (!next(batch)) {
      throw kolo::Error("epoch " + std::to_string(epoch.epoch + 1) + ": the training data ended after " +
                        std::to_string(position_.step_in_epoch) + " of " + std::to_string(source_->steps()) + " steps");
    }
    const double data_ms = milliseconds_since(start);
    StepRecord record = train_step(batch, totals);
    ++position_.step;
    ++position_.step_in_epoch;
    const bool reported = position_.step == 1 || position_.step_in_epoch % options_.log_interval == 0 ||
                          position_.step_in_epoch == last_step_in_epoch();
    if (reported) wait_for(compute_.device);
    record.data_ms = data_ms;
    record.step_ms = milliseconds_since(start);
    record.page_faults = static_cast<double>(minor_faults() - faults);
    log_step(record, reported);
  }
  epoch.seconds = milliseconds_since(epoch_start) / 1000;
  std::vector<double> sums = totals.read();
  sum_over_ranks(context_, sums);
  epoch.images = static_cast<std::int64_t>(sums[2]);
  epoch.train_loss = sums[0] / std::max(sums[2], 1.0);
  epoch.train_top1 = sums[1] / std::max(sums[2], 1.0);
  epoch.whole = position_.step_in_epoch == source_->steps();
  if (epoch.whole) {
    ++position_.epoch;
    position_.step_in_epoch = position_.done_before = 0;
  }
  return epoch;
}

std::int64_t Trainer::last_step_in_epoch() const {
  const std::int64_t steps = source_->steps();
  return options_.steps > 0 ? std::min(steps, position_.step_in_epoch + options_.steps - position_.step) : steps;
}

bool Trainer::next(Batch& batch) {
  const kolo::TimelineRange range(context_, "data wait");
  return source_->next(batch);
}

StepRecord Trainer::train_step(const Batch& batch, Totals& totals) {
  StepRecord record;
  record.step = position_.step;
  record.epoch = position_.epoch;
  record.lr = current_learning_rate();
  set_learning_rate(*optimizer_, record.lr);

  const auto start = Clock::now();
  const at::Tensor logits = logits_of(compute_, *model_, batch.images);
  const at::Tensor loss =
      at::cross_entropy_loss(logits, batch.labels, {}, at::Reduction::Mean, -100, options_.label_smoothing);
  record.forward_ms = milliseconds_since(start);
  if (scaler_) {
    record.loss_scale = scaler_->state().scale;
    scaler_->scale(loss).backward();
  } else {
    loss.backward();
  }
  if (options_.overlap_update == Choice::on) {
    update_while_reducing(record);
  } else {
    update(record);
  }

  if (compute_.device.is_cpu()) {
    record.loss = loss.item<double>();
  } else {
    record.device_loss = loss.detach();
  }
  const auto images = static_cast<double>(batch.labels.size(0));
  totals.add(0, loss, images);
  totals.add(1, logits.argmax(1).eq(batch.labels).sum());
  totals.add(2, images);
  return record;
}

// Waits for the gradients before the step, so that both times are known.
void Trainer::update(StepRecord& record) {
  auto start = Clock::now();
  if (distributed_) {
    distributed_->synchronize();
    record.exposed_ms = milliseconds_since(start);
    start = Clock::now();
  }
  if (scaler_ && distributed_) {
    scaler_->step_async(*distributed_);
  } else if (scaler_) {
    scaler_->step(*optimizer_);
  } else if (distributed_) {
    distributed_->step();  // kolo: all ranks take the same step
  } else {
    optimizer_->step();
  }
  if (scaler_) scaler_->update();
  optimizer_->zero_grad();
  record.update_ms = milliseconds_since(start);
}

// step() updates each weight as soon as its gradient is reduced. The wait is known from kolo's counters only.
void Trainer::update_while_reducing(StepRecord& record) {
  const auto start = Clock::now();
  const std::uint64_t waited = context_.counters().at("wait_ns");
  distributed_->step();
  optimizer_->zero_grad();
  record.exposed_ms = 1e-6 * static_cast<double>(context_.counters().at("wait_ns") - waited);
  record.update_ms = milliseconds_since(start) - record.exposed_ms;
}

double Trainer::current_learning_rate() const {
  // Images that an earlier run trained on with another global batch count as steps of this one.
  const double before = static_cast<double>(position_.done_before) / global_batch();
  const double steps = before + static_cast<double>(source_->steps());
  const double done = before + static_cast<double>(position_.step_in_epoch);
  return learning_rate(options_, global_batch(), static_cast<double>(position_.epoch) + done / steps, steps);
}

// Throws if too many consecutive losses are not finite. On CPUs with --sync on, losses are checked in each step;
// otherwise when steps are reported.
void Trainer::log_step(const StepRecord& record, bool reported) {
  const bool check_now = compute_.device.is_cpu() && options_.sync;
  log_.add(record);
  std::string stop;
  if (check_now) stop = loss_watch_.check(record.step, {&record.loss, 1});
  if (reported || !stop.empty()) {
    const std::vector<double> losses = log_.flush();
    const auto first = position_.step - static_cast<std::int64_t>(losses.size());
    if (!check_now) stop = loss_watch_.check(first, losses);
  }
  if (!stop.empty()) throw kolo::Error(stop);
  reporter_.progress(position_.epoch, options_.epochs, position_.step_in_epoch, last_step_in_epoch());
}

// --- end of an epoch ----------------------------------------------------------------------------------------------

// Every validation image once. Ranks may have different numbers of batches, or none.
void Trainer::evaluate(EpochRecord& record) {
  const at::NoGradGuard no_grad;
  model_->eval();
  Totals totals(compute_.device, 4);  // loss, correct first, correct among five, images
  validation_->begin(0, 0);
  for (Batch batch; validation_->next(batch);) {
    const std::int64_t images = batch.labels.size(0);
    if (images == 0) continue;
    const at::Tensor logits = logits_of(compute_, *model_, batch.images);
    totals.add(0, at::cross_entropy_loss(logits, batch.labels, {}, at::Reduction::Sum));
    const auto best = std::get<1>(logits.topk(std::min<std::int64_t>(5, logits.size(1)), 1));
    const at::Tensor correct = best.eq(batch.labels.unsqueeze(1));
    totals.add(1, correct.select(1, 0).sum());
    totals.add(2, correct.sum());
    totals.add(3, static_cast<double>(images));
  }
  std::vector<double> sums = totals.read();
  sum_over_ranks(context_, sums);  // kolo: results of all images
  const double images = std::max(sums[3], 1.0);
  record.validated = true;
  record.val_loss = sums[0] / images;
  record.top1 = sums[1] / images;
  record.top5 = sums[2] / images;
  record.val_images = static_cast<std::int64_t>(sums[3]);
}

// Throws, or warns with --on-nan warn, if a weight or a BatchNorm statistic is not finite.
void Trainer::check_weights() {
  const std::string found = non_finite_state(context_, *model_);
  position_.finite = found.empty();
  if (found.empty()) return;
  const std::string text = "after " + std::to_string(position_.step) + " steps " + found;
  if (options_.on_nan == OnNan::stop) {
    throw kolo::Error(
        text + ". Lower --lr or check the data, then resume from the last checkpoint; to continue, use --on-nan warn");
  }
  reporter_.warn(text);
}

void Trainer::save() {
  if (options_.checkpoint_dir.empty()) return;
  if (scaler_) position_.scaler = scaler_->state();
  reporter_.note("checkpoint: " + save_checkpoint(context_, directory_.get(), state(), position_));
}

// --- messages -----------------------------------------------------------------------------------------------------

void Trainer::print_header() {
  reporter_.header(options_, context_.placement());
  if (!lock_notice_.empty()) reporter_.warn(lock_notice_);
  const auto bindings =
      gather(context_, binding_warning(context_.placement().local_size, options_.threads, options_.workers));
  const auto bound = std::ranges::find_if(bindings, [](const std::string& text) { return !text.empty(); });
  if (bound != bindings.end()) reporter_.warn(*bound);
  for (const auto& line : data_.notes) reporter_.note(line);
  if (!options_.resume.empty()) print_resume_position();
}

void Trainer::print_resume_position() {
  for (const auto& line : position_.warnings) reporter_.warn(line);
  reporter_.note("resumed from " + options_.resume + " at step " + std::to_string(position_.step));
  if (position_.done_before > 0 && position_.old_global_batch != global_batch() && !done()) {
    reporter_.warn("the global batch changed from " + std::to_string(position_.old_global_batch) + " to " +
                   std::to_string(global_batch()) + ". Epoch " + std::to_string(position_.epoch + 1) +
                   " resumes after its first " + std::to_string(position_.done_before) +
                   " images; its last batch may be smaller");
  }
  if (done()) {
    reporter_.note("nothing to train: the checkpoint has reached --epochs or --steps");
  } else if (options_.checkpoint_dir.empty()) {
    reporter_.warn("no --checkpoint-dir: this run saves no checkpoints");
  }
}

void Trainer::print_check_result() {
  std::string text = "check: " + std::to_string(context_.size()) + " ranks have equal options";
  if (data_.train) text += ", " + std::to_string(data_.train->size()) + " training images with equal names";
  if (data_.validation) {
    text += ", " + std::to_string(data_.validation->size()) + " validation images with equal names";
  }
  reporter_.note(text + ", " + std::to_string(options_.classes) + " classes");
}

void Trainer::warn_about_damage(std::int64_t epoch) {
  std::string prefix = "warning: epoch " + std::to_string(epoch + 1) + ": ";
  for (const auto& line : damage_.next(context_, loader_report())) {
    reporter_.note(prefix + line);
    prefix.clear();
  }
}

kolo::data::LoaderReport Trainer::loader_report() const {
  kolo::data::LoaderReport report = source_->report();
  if (!validation_) return report;
  const kolo::data::LoaderReport more = validation_->report();
  report.replaced += more.replaced;
  report.skipped += more.skipped;
  report.broken.insert(report.broken.end(), more.broken.begin(), more.broken.end());
  report.converted.insert(report.converted.end(), more.converted.begin(), more.converted.end());
  return report;
}

void Trainer::finish() {
  kolo::CounterSnapshot counters = context_.counters();
  counters["minor_page_faults"] = minor_faults();
  for (const auto& line : report_files(context_, loader_report(), counters)) reporter_.note(line);
  reporter_.counters(counters);
}

// Compares the options of all ranks. `mistake`: of this rank's command line. Returns a text for the user, or "".
// Collective.
std::string check_options(kolo::Context& context, const std::optional<Options>& options, const std::string& mistake) {
  const std::string mistakes = summary_of(gather(context, mistake));
  return mistakes.empty() ? difference_of(gather(context, common_options(*options))) : mistakes;
}

}  // namespace
}  // namespace imagenet

int main(int argc, char** argv) {
  imagenet::prepare_streams();
  std::optional<imagenet::Options> options;
  std::string mistake;
  try {
    options = imagenet::parse_options(argc, argv, std::cout);
    if (!options) return 0;
  } catch (const kolo::UsageError& error) {
    mistake = error.what();
  }
  imagenet::keep_freed_memory();
  std::unique_ptr<kolo::Context> context;
  try {
    context = kolo::Context::create();  // kolo: connects the ranks that mpirun started
    const std::string mistakes = imagenet::check_options(*context, options, mistake);
    if (!mistakes.empty()) {
      if (context->rank() == 0) std::fprintf(stderr, "imagenet_resnet50: %s\n", mistakes.c_str());
      return 2;
    }
    context->run([&] {
      const imagenet::Options resolved = imagenet::resolve(*options, *context);
      at::set_num_threads(resolved.threads);
      imagenet::Trainer(*context, resolved).run();
    });
    context->shutdown();
    return 0;
  } catch (const std::exception& error) {
    if (context == nullptr) {
      std::fprintf(stderr, "imagenet_resnet50: %s\n", error.what());
    } else {
      imagenet::report_failure(*context, error);
    }
    return 1;
  }
}
