#include "options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <ostream>

#include "kolo/error.h"

namespace imagenet {
namespace {

const std::map<std::string, bool> kOnOff = {{"on", true}, {"off", false}};
const std::map<std::string, Choice> kChoices = {
    {"auto", Choice::where_possible}, {"on", Choice::on}, {"off", Choice::off}};

// In the help an option is "--name VALUES [DEFAULT]", where VALUES is what its validator says of itself.
class HelpFormatter : public CLI::Formatter {
  std::string make_option_opts(const CLI::Option* option) const override {
    if (option->get_type_size() == 0) return {};
    const std::string type = option->get_type_name();  // "TYPE" or "TYPE:VALUES"
    std::string text = " " + type.substr(type.find(':') + 1);
    const std::string value = option->get_default_str();  // a list has its brackets
    if (!value.empty()) text += value.starts_with('[') ? " " + value : " [" + value + "]";
    if (option->get_required()) text += " (required)";
    return text;
  }
};

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

CLI::Validator not_empty() {
  const auto check = [](const std::string& text) {
    return std::string(text.empty() ? "is empty. Is a shell variable unset?" : "");
  };
  return {check, "PATH"};
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

CLI::Range whole_number_in(int low, int high) {
  return {low, high, std::to_string(low) + " to " + std::to_string(high)};
}

// An option of which `value` holds the default, which the help then calls by its name.
template <class T>
void add_choice(CLI::App& app, const std::string& name, T& value, const std::map<std::string, T>& values,
                const std::string& text) {
  CLI::Option* option = app.add_option(name, value, text)->transform(one_of(values));
  for (const auto& [word, meaning] : values) {
    if (meaning == value) option->default_str(word);
  }
}

void add_data(CLI::App& app, Options& o) {
  app.add_option("--data", o.data, "folder with train/ and val/, or synthetic:device|host|jpeg")->required();
  app.add_option("--classes", o.classes, "0: what the folder has (synthetic data: 1000)")
      ->check(whole_number_in(0, 1000000));
  app.add_option("--synthetic-images", o.synthetic_images, "images in a synthetic epoch")
      ->check(whole_number_in(1, 1000000000));
  app.add_option("--image-size", o.image_size, "pixels a side")->check(whole_number_in(8, 4096));
  app.add_option("--max-broken", o.max_broken,
                 "most damaged files in an epoch, all ranks together; more end the run with an error")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 40, "0 or more"))
      ->default_str("1 % of the files read, at least 10");
  app.add_option("--workers", o.workers, "loader threads a rank, 0: choose")->check(whole_number_in(0, 1024));
}

void add_run(CLI::App& app, Options& o) {
  app.add_option("--arch", o.arch, "network")
      ->check(CLI::IsMember({"resnet18", "resnet34", "resnet50", "resnet101", "resnet152"}));
  app.add_option("--epochs", o.epochs, "passes over the training images")->check(whole_number_in(1, 100000));
  app.add_option("--steps", o.steps, "stop after so many steps, 0: no limit")->check(whole_number_in(0, 1000000000));
  app.add_option("--batch", o.batch, "images a rank and step")->check(whole_number_in(1, 65536));
  app.add_option("--val-batch", o.val_batch, "images of a rank at a time in validation, 0: the same as --batch")
      ->check(whole_number_in(0, 65536));
  app.add_option("--seed", o.seed, "of the initial weights, the order of the images and their augmentation");
  app.add_option("--threads", o.threads, "LibTorch threads a rank, 0: choose")->check(whole_number_in(0, 1024));
  add_choice(app, "--sync", o.sync, kOnOff, "off: ranks train alone (for measuring)");
  add_choice(app, "--shared-gradients", o.shared_gradients, kChoices,
             "reduce gradients where they lie (CPU; all ranks on one host, or each on one of its own); auto: where "
             "that is so");
  add_choice(app, "--overlap-update", o.overlap_update, kChoices,
             "update each weight when its gradient is there, while others are still being reduced (CPU; --optimizer "
             "fused); auto: where that is so");
  add_choice(app, "--device", o.device, {{"cpu", DeviceKind::cpu}, {"cuda", DeviceKind::cuda}},
             "cpu, or cuda: a GPU a rank");
  add_choice(app, "--amp", o.amp, {{"off", Amp::off}, {"bf16", Amp::bf16}, {"fp16", Amp::fp16}},
             "mixed precision: off, bf16, or fp16 with loss scaling");
  add_choice(app, "--memory-format", o.channels_last, {{"channels_last", true}, {"contiguous", false}},
             "of images and convolutions' weights");
  app.add_flag("--check", o.check, "compare options, file names and labels of all ranks, then end without training");
  app.add_option("--json", o.json, "file for JSON lines")->check(not_empty());
  app.add_option("--log-interval", o.log_interval,
                 "steps between two looks at the loss: JSON lines come then, and the console shows the latest")
      ->check(whole_number_in(1, 1000000));
  app.add_option("--checkpoint-dir", o.checkpoint_dir, "where epoch ends are kept")->check(not_empty());
  app.add_option("--keep-checkpoints", o.keep_checkpoints, "the newest so many, 0: all")
      ->check(whole_number_in(0, 1000000));
  add_choice(app, "--on-nan", o.on_nan, {{"stop", OnNan::stop}, {"warn", OnNan::warn}},
             "stop: error after 20 consecutive steps with a non-finite loss, or at the end of an epoch with a "
             "non-finite weight; warn: warnings only");
  app.add_option("--resume", o.resume, "a checkpoint, or a folder of them: the newest")->check(not_empty());
}

void add_recipe(CLI::App& app, Options& o) {
  app.add_option("--lr", o.lr, "learning rate for a global batch of 256, scaled linearly")
      ->check(number_in("1e-6", "1e6"));
  app.add_option("--warmup-epochs", o.warmup_epochs,
                 "epochs in which the learning rate rises; unless given, at most --epochs")
      ->check(number_in("0", "1e6"));
  add_choice(app, "--schedule", o.schedule, {{"step", ScheduleKind::step}, {"cosine", ScheduleKind::cosine}},
             "of the learning rate: divided by 10 at each of --milestones, or half a cosine down to 0");
  app.add_option("--milestones", o.milestones, "epochs of the step schedule, with commas between them")
      ->delimiter(',')
      ->check(number_in("0", "1e6"));
  app.add_option("--momentum", o.momentum, "of SGD")->check(number_in("0", "1"));
  app.add_flag("--nesterov", o.nesterov, "Nesterov's momentum");
  app.add_option("--weight-decay", o.weight_decay, "so much of each weight is added to its gradient")
      ->check(number_in("0", "1e6"));
  app.add_flag("--no-decay-norm-bias", o.no_decay_norm_bias, "no weight decay on BatchNorm and biases");
  app.add_option("--label-smoothing", o.label_smoothing, "part of each label that is spread over all classes")
      ->check(number_in("0", "1"));
  app.add_flag("--zero-init-residual", o.zero_init_residual, "start each block's last BatchNorm at 0");
  add_choice(app, "--optimizer", o.optimizer, {{"fused", OptimizerKind::fused}, {"torch", OptimizerKind::torch}},
             "fused (kolo's SGD) or torch (torch::optim::SGD)");
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
  for (const auto& [option, choice] :
       {std::pair("--shared-gradients on ", o.shared_gradients), std::pair("--overlap-update on ", o.overlap_update)}) {
    if (choice != Choice::on) continue;
    if (!o.sync) throw kolo::UsageError(std::string(option) + "is about the exchange that --sync off leaves out");
    if (o.device != DeviceKind::cpu) {
      throw kolo::UsageError(std::string(option) + "is for gradients in the host's memory: not with --device cuda");
    }
  }
  if (o.overlap_update == Choice::on && !may_overlap(o)) {
    throw kolo::UsageError(
        "--overlap-update on needs --optimizer fused, and not --amp fp16, which looks at all gradients before a step");
  }
  if (o.data_kind == DataKind::folder && o.data.empty()) throw kolo::UsageError("--data is empty");
}

}  // namespace

bool may_overlap(const Options& o) noexcept { return o.optimizer == OptimizerKind::fused && o.amp != Amp::fp16; }

std::optional<Options> parse_options(int argc, const char* const* argv, std::ostream& out) {
  Options o;
  CLI::App app("Trains a ResNet on ImageNet-like data, one process a rank: mpirun -np P imagenet_resnet50 --data DIR");
  app.formatter(std::make_shared<HelpFormatter>());
  app.option_defaults()->always_capture_default();
  add_data(app, o);
  add_run(app, o);
  add_recipe(app, o);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    out << app.help();
    return std::nullopt;
  } catch (const CLI::ExtrasError&) {
    throw kolo::UsageError("'" + app.remaining().front() + "' is not understood; --help shows all options");
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
