#include "options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <map>
#include <ostream>

#include "kolo/error.h"

namespace imagenet {
namespace {

const std::map<std::string, bool> kOnOff = {{"on", true}, {"off", false}};

// Like CLI::CheckedTransformer, and says the names as a user types them.
template <class T>
CLI::Validator one_of(const std::map<std::string, T>& values) {
  std::string names;
  for (const auto& [name, value] : values) names += (names.empty() ? "" : "|") + name;
  const auto check = [values, names](std::string& text) -> std::string {
    const auto found = values.find(CLI::detail::to_lower(text));
    if (found == values.end()) return "'" + text + "' is none of " + names;
    text = std::to_string(static_cast<int>(found->second));
    return {};
  };
  return {check, names};
}

// Like CLI::Range, which takes nan for a number of any range.
CLI::Validator number_in(const std::string& low, const std::string& high) {
  const std::string range = low + " to " + high;
  const auto check = [range, lowest = std::stod(low),
                      highest = std::stod(high)](const std::string& text) -> std::string {
    double value = 0;
    const bool within = CLI::detail::lexical_cast(text, value) && value >= lowest && value <= highest;
    return within ? "" : "'" + text + "' is not a number from " + range;
  };
  return {check, range};
}

void add_data(CLI::App& app, Options& o) {
  app.add_option("--data", o.data, "folder with train/ and val/, or synthetic:device|host|jpeg")->required();
  app.add_option("--classes", o.classes, "0: what the folder has (synthetic data: 1000)")
      ->check(CLI::Range(0, 1000000));
  app.add_option("--synthetic-images", o.synthetic_images, "images in a synthetic epoch")
      ->check(CLI::Range(1, 1000000000));
  app.add_option("--image-size", o.image_size, "pixels a side")->check(CLI::Range(8, 4096));
  app.add_option("--workers", o.workers, "loader threads a rank, 0: choose")->check(CLI::Range(0, 1024));
}

void add_run(CLI::App& app, Options& o) {
  app.add_option("--arch", o.arch, "network")
      ->check(CLI::IsMember({"resnet18", "resnet34", "resnet50", "resnet101", "resnet152"}));
  app.add_option("--epochs", o.epochs)->check(CLI::Range(1, 100000));
  app.add_option("--steps", o.steps, "stop after so many steps, 0: no limit")->check(CLI::Range(0, 1000000000));
  app.add_option("--batch", o.batch, "images a rank and step")->check(CLI::Range(1, 65536));
  app.add_option("--val-batch", o.val_batch, "0: the same as --batch")->check(CLI::Range(0, 65536));
  app.add_option("--seed", o.seed);
  app.add_option("--threads", o.threads, "LibTorch threads a rank, 0: choose")->check(CLI::Range(0, 1024));
  app.add_option("--sync", o.sync, "off: ranks train alone (for measuring)")->transform(one_of(kOnOff));
  app.add_option("--shared-gradients", o.shared_gradients,
                 "reduce gradients where they lie (CPU; all ranks on one host, or each on one of its own); auto: where "
                 "that is so")
      ->transform(one_of(std::map<std::string, SharedGradients>{
          {"auto", SharedGradients::where_possible}, {"on", SharedGradients::on}, {"off", SharedGradients::off}}));
  app.add_option("--device", o.device, "cpu, or cuda: a GPU a rank")
      ->transform(one_of(std::map<std::string, DeviceKind>{{"cpu", DeviceKind::cpu}, {"cuda", DeviceKind::cuda}}));
  app.add_option("--amp", o.amp, "mixed precision: off, bf16, or fp16 with loss scaling")
      ->transform(one_of(std::map<std::string, Amp>{{"off", Amp::off}, {"bf16", Amp::bf16}, {"fp16", Amp::fp16}}));
  app.add_option("--memory-format", o.channels_last)
      ->transform(one_of(std::map<std::string, bool>{{"channels_last", true}, {"contiguous", false}}));
  app.add_option("--json", o.json, "file for JSON lines");
  app.add_option("--log-interval", o.log_interval,
                 "steps between two looks at the loss: JSON lines come then, and the console shows the latest")
      ->check(CLI::Range(1, 1000000));
  app.add_option("--checkpoint-dir", o.checkpoint_dir, "where epoch ends are kept");
  app.add_option("--keep-checkpoints", o.keep_checkpoints, "the newest so many, 0: all")->check(CLI::Range(0, 1000000));
  app.add_option("--resume", o.resume, "a checkpoint, or a folder of them: the newest");
}

void add_recipe(CLI::App& app, Options& o) {
  const std::map<std::string, ScheduleKind> schedules = {{"step", ScheduleKind::step},
                                                         {"cosine", ScheduleKind::cosine}};
  const std::map<std::string, OptimizerKind> optimizers = {{"fused", OptimizerKind::fused},
                                                           {"torch", OptimizerKind::torch}};
  app.add_option("--lr", o.lr, "for a global batch of 256, scaled linearly")->check(number_in("1e-6", "1e6"));
  app.add_option("--warmup-epochs", o.warmup_epochs, "unless given, at most --epochs")->check(number_in("0", "1e6"));
  app.add_option("--schedule", o.schedule)->transform(one_of(schedules));
  app.add_option("--milestones", o.milestones, "epochs of the step schedule")
      ->delimiter(',')
      ->check(number_in("0", "1e6"));
  app.add_option("--momentum", o.momentum)->check(number_in("0", "1"));
  app.add_flag("--nesterov", o.nesterov);
  app.add_option("--weight-decay", o.weight_decay)->check(number_in("0", "1e6"));
  app.add_flag("--no-decay-norm-bias", o.no_decay_norm_bias, "no weight decay on BatchNorm and biases");
  app.add_option("--label-smoothing", o.label_smoothing)->check(number_in("0", "1"));
  app.add_flag("--zero-init-residual", o.zero_init_residual, "start each block's last BatchNorm at 0");
  app.add_option("--optimizer", o.optimizer, "fused (kolo's SGD) or torch (torch::optim::SGD)")
      ->transform(one_of(optimizers));
}

DataKind kind_of(const std::string& data) {
  if (data.rfind("synthetic", 0) != 0 || std::filesystem::exists(data)) return DataKind::folder;
  const std::string kind = data.substr(std::min<std::size_t>(10, data.size()));
  if (kind == "device") return DataKind::synthetic_device;
  if (kind == "host") return DataKind::synthetic_host;
  if (kind == "jpeg") return DataKind::synthetic_jpeg;
  throw kolo::UsageError("--data: '" + data +
                         "' is unknown; known are synthetic:device, synthetic:host, synthetic:jpeg");
}

// What one option alone cannot check.
void check_together(const Options& o) {
  if (o.warmup_epochs > o.epochs)
    throw kolo::UsageError("--warmup-epochs is larger than --epochs, which is " + std::to_string(o.epochs));
  for (std::size_t i = 1; i < o.milestones.size(); ++i) {
    if (o.milestones[i] <= o.milestones[i - 1]) throw kolo::UsageError("--milestones must increase");
  }
  if (o.nesterov && o.momentum == 0) throw kolo::UsageError("--nesterov needs a --momentum above 0");
  if (!o.sync && (!o.checkpoint_dir.empty() || !o.resume.empty())) {
    throw kolo::UsageError(
        "--sync off lets every rank train its own model: it has no checkpoint (--checkpoint-dir, --resume)");
  }
  if (!o.sync && o.shared_gradients == SharedGradients::on) {
    throw kolo::UsageError("--shared-gradients on is about the exchange that --sync off leaves out");
  }
  if (o.shared_gradients == SharedGradients::on && o.device != DeviceKind::cpu) {
    throw kolo::UsageError("--shared-gradients on is for gradients in the host's memory: not with --device cuda");
  }
  if (o.data_kind == DataKind::folder && o.data.empty()) throw kolo::UsageError("--data is empty");
}

}  // namespace

std::optional<Options> parse_options(int argc, const char* const* argv, std::ostream& out) {
  Options o;
  CLI::App app("Trains a ResNet on ImageNet-like data, one process a rank: mpirun -np P imagenet_resnet50 --data DIR");
  app.option_defaults()->always_capture_default();
  add_data(app, o);
  add_run(app, o);
  add_recipe(app, o);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    out << app.help();
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    throw kolo::UsageError(error.what());
  }
  if (app.count("--warmup-epochs") == 0) o.warmup_epochs = std::min<double>(o.warmup_epochs, o.epochs);
  o.data_kind = kind_of(o.data);
  check_together(o);
  if (o.val_batch == 0) o.val_batch = o.batch;
  if (o.classes == 0 && o.data_kind != DataKind::folder) o.classes = 1000;
  return o;
}

}  // namespace imagenet
