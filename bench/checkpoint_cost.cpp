// What checkpoints of ResNet-50 and its SGD state cost, at one every 10 steps:
//
//   [mpirun -np 2] checkpoint_cost FOLDER REPETITIONS --data synthetic:device --batch 8 --image-size 128 --threads 1
//
// The trainer's options follow. Blocks of 20 timed steps alternate, with two checkpoints in each: without checkpoints,
// with a Checkpointer, and with a checkpoint that rank 0 writes while all ranks wait. Output of rank 0: a line of JSON
// for each block, then a summary: ratios of block means with their 95 % interval (bootstrap over repetitions), the time
// for which step() copied beside one memcpy of as many bytes, and the rate of the write beside that of the disk.
#include <ATen/Functions.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "data.h"
#include "kolo/torch/torch.h"
#include "model.h"
#include "options.h"
#include "ranks.h"

namespace kolo::bench {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr int kEvery = 10;
constexpr int kUntimed = 5;  // so that both checkpoints and their writes are inside a block
constexpr int kTimed = 20;

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

enum class Mode { none, checkpointer, synchronous };
constexpr const char* kNames[] = {"none", "checkpointer", "synchronous"};

class Measurement {
 public:
  Measurement(Context& context, const imagenet::Options& options, fs::path folder)
      : context_(context), options_(options), folder_(std::move(folder)), compute_(make_compute(context, options)) {
    const auto source = make_source(context, options, imagenet::Part::train, compute_.device, nullptr);
    source->begin(0, 0);
    if (!source->next(batch_)) throw UsageError("--data has no images");
    at::manual_seed(options.seed);
    model_ = std::make_shared<imagenet::ResNet>(options.arch, source->classes(), options.zero_init_residual);
    if (options.channels_last) imagenet::use_channels_last(*model_);
    imagenet::use_onednn(*model_);
    optimizer_ = imagenet::make_optimizer(options, *model_);
    distributed_.emplace(context, optimizer_, model_->named_parameters());
    checkpoints_.emplace(context, folder_ / "checkpointer", CheckpointerOptions{.every = kEvery, .keep = 2});
    checkpoints_->add("model", model_);
    checkpoints_->add("optimizer", *distributed_);
    (void)checkpoints_->restore();
    if (context.rank() == 0) synchronous_.emplace(folder_ / "synchronous", checkpoint::CheckpointOptions{.keep = 2});
  }

  // The mean of a timed step in ms.
  double block(Mode mode) {
    Clock::time_point start;
    for (int step = 1; step <= kUntimed + kTimed; ++step) {
      train_step();
      if (mode == Mode::checkpointer) checkpoints_->step(++done_);
      if (mode == Mode::synchronous && step % kEvery == 0) save();
      if (step == kUntimed) start = Clock::now();
    }
    const double mean = ms_since(start) / kTimed;
    if (mode == Mode::checkpointer) settle();
    return mean;
  }

  [[nodiscard]] const CheckpointCounts& counts() const { return checkpoints_->counts(); }

 private:
  void train_step() {
    const at::Tensor logits = imagenet::logits_of(compute_, *model_, batch_.images);
    at::cross_entropy_loss(logits, batch_.labels).backward();
    distributed_->step();
    distributed_->zero_grad();
  }

  // Trains until the last checkpoint is published.
  void settle() {
    const auto& counts = checkpoints_->counts();
    while (counts.written + counts.failed + counts.skipped < done_ / kEvery) {
      train_step();
      checkpoints_->step(done_);
    }
  }

  void save() {
    if (synchronous_) {
      (void)synchronous_->save({.step = ++saves_}, [&](const fs::path& folder) {
        write(folder / "model.safetensors", imagenet::state_of(*model_));
        imagenet::NamedState momenta;
        for (const auto& parameter : model_->named_parameters()) {
          const auto& state = *optimizer_->state().at(parameter.value().unsafeGetTensorImpl());
          momenta.emplace_back(parameter.key(),
                               static_cast<const torch::optim::SGDParamState&>(state).momentum_buffer());
        }
        write(folder / "optimizer.safetensors", momenta);
      });
    }
    context_.barrier();
  }

  static void write(const fs::path& file, const imagenet::NamedState& tensors) {
    std::vector<at::Tensor> row_major;
    std::vector<checkpoint::TensorView> views;
    for (const auto& [name, tensor] : tensors) {
      row_major.push_back(tensor.detach().contiguous());
      const at::Tensor& t = row_major.back();
      views.push_back({name,
                       t.scalar_type() == at::kLong ? DType::i64 : DType::f32,
                       t.sizes().vec(),
                       {static_cast<const std::byte*>(t.const_data_ptr()), t.nbytes()}});
    }
    (void)checkpoint::write_safetensors(file, views);
  }

  Context& context_;
  const imagenet::Options& options_;
  fs::path folder_;
  imagenet::Compute compute_;
  imagenet::Batch batch_;
  std::shared_ptr<imagenet::ResNet> model_;
  std::shared_ptr<torch::optim::Optimizer> optimizer_;
  std::optional<DistributedOptimizer> distributed_;
  std::optional<Checkpointer> checkpoints_;
  std::optional<checkpoint::CheckpointDirectory> synchronous_;
  std::int64_t done_ = 0;
  std::int64_t saves_ = 0;
};

// One memcpy of `bytes`, of pages that are in use.
double memcpy_ms(std::size_t bytes) {
  const std::vector<std::byte> from(bytes, std::byte{1});
  std::vector<std::byte> to(bytes);
  std::vector<double> times;
  for (int i = 0; i < 9; ++i) {
    const auto start = Clock::now();
    std::memcpy(to.data(), from.data(), bytes);
    times.push_back(ms_since(start));
  }
  return median(times);
}

// A file of `bytes`, written and flushed, nothing else.
double disk_ms(const fs::path& folder, std::size_t bytes) {
  const std::vector<std::byte> content(bytes, std::byte{1});
  std::vector<double> times;
  for (int i = 0; i < 5; ++i) {
    const auto start = Clock::now();
    (void)checkpoint::write_file(folder / "disk", content);
    times.push_back(ms_since(start));
    fs::remove(folder / "disk");
  }
  return median(times);
}

void print_ratio(const char* name, const std::vector<double>& blocks, const std::vector<double>& base) {
  std::mt19937_64 random(1);
  std::vector<double> ratios;
  for (std::size_t i = 0; i < blocks.size(); ++i) ratios.push_back(blocks[i] / base[i]);
  std::vector<double> medians;
  for (int draw = 0; draw < 2000; ++draw) {
    std::vector<double> some;
    for (std::size_t i = 0; i < ratios.size(); ++i) some.push_back(ratios[random() % ratios.size()]);
    medians.push_back(median(some));
  }
  std::sort(medians.begin(), medians.end());
  std::printf("%s: %.4f of a step without checkpoints [%.4f, %.4f]\n", name, median(ratios), medians[50],
              medians[1949]);
}

void run(Context& context, const imagenet::Options& options, const fs::path& folder, int repetitions) {
  Measurement measurement(context, options, folder);
  std::vector<double> means[3];
  std::vector<double> blocked;
  std::vector<double> writing;
  (void)measurement.block(Mode::checkpointer);  // warm: memory, files
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    for (const Mode mode : {Mode::none, Mode::checkpointer, Mode::synchronous}) {
      const auto index = static_cast<std::size_t>(mode);
      means[index].push_back(measurement.block(mode));
      if (context.rank() == 0) std::printf("{\"mode\":\"%s\",\"step_ms\":%.3f}\n", kNames[index], means[index].back());
      std::fflush(stdout);
      if (mode != Mode::checkpointer) continue;
      blocked.push_back(std::chrono::duration<double, std::milli>(measurement.counts().blocked).count());
      writing.push_back(std::chrono::duration<double, std::milli>(measurement.counts().writing).count());
    }
  }
  const CheckpointCounts counts = measurement.counts();
  const double copy = memcpy_ms(counts.bytes);
  const double disk = disk_ms(folder, counts.bytes);
  if (context.rank() != 0) return;
  std::printf("step without checkpoints: %.1f ms; %lld written, %lld skipped, %lld failed; part of rank 0: %.1f MB\n",
              median(means[0]), static_cast<long long>(counts.written), static_cast<long long>(counts.skipped),
              static_cast<long long>(counts.failed), 1e-6 * static_cast<double>(counts.bytes));
  print_ratio("checkpointer", means[1], means[0]);
  print_ratio("synchronous", means[2], means[0]);
  std::printf("step() is blocked for %.1f ms; memcpy: %.1f ms, ratio %.2f\n", median(blocked), copy,
              median(blocked) / copy);
  std::printf("write in %.0f ms; disk: %.0f ms, rate %.2f of the disk's %.0f MB/s\n", median(writing), disk,
              disk / median(writing), 1e-3 * static_cast<double>(counts.bytes) / disk);
}

}  // namespace
}  // namespace kolo::bench

int main(int argc, char** argv) {
  imagenet::prepare_streams();
  imagenet::keep_freed_memory();
  try {
    if (argc < 4) throw kolo::UsageError("checkpoint_cost FOLDER REPETITIONS, then options of the trainer");
    const auto options = imagenet::parse_options(argc - 2, argv + 2, std::cout);
    if (!options) return 0;
    const auto context = kolo::Context::create();
    at::set_num_threads(options->threads > 0 ? options->threads : context->placement().threads);
    context->run([&] { kolo::bench::run(*context, *options, argv[1], std::max(1, std::stoi(argv[2]))); });
    context->shutdown();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "checkpoint_cost: %s\n", error.what());
    return 1;
  }
}
