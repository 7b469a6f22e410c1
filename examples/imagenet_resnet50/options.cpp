#include "options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <ostream>

#include "kolo/error.h"
#include "report.h"

namespace imagenet {
namespace {

using json = nlohmann::ordered_json;

// Values of an option by the names that users type.
template <class T>
using Names = std::map<std::string, T>;
const Names<bool> kOnOff = {{"on", true}, {"off", false}};
const Names<bool> kMemoryFormats = {{"channels_last", true}, {"contiguous", false}};
const Names<Choice> kChoices = {{"auto", Choice::automatic}, {"on", Choice::on}, {"off", Choice::off}};
const Names<DeviceKind> kDevices = {{"cpu", DeviceKind::cpu}, {"cuda", DeviceKind::cuda}};
const Names<Amp> kAmps = {{"off", Amp::off}, {"bf16", Amp::bf16}, {"fp16", Amp::fp16}};
const Names<OnNan> kOnNan = {{"stop", OnNan::stop}, {"warn", OnNan::warn}};
const Names<ScheduleKind> kSchedules = {{"step", ScheduleKind::step}, {"cosine", ScheduleKind::cosine}};
const Names<OptimizerKind> kOptimizers = {{"fused", OptimizerKind::fused}, {"torch", OptimizerKind::torch}};

template <class T>
std::string name_of(const Names<T>& names, T value) {
  return std::ranges::find(names, value, &Names<T>::value_type::second)->first;
}

// Prints an option as "--name VALUES [DEFAULT]", where VALUES is the description of its validator.
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

// Like CLI::CheckedTransformer, but errors and help list the names.
template <class T>
CLI::Validator one_of(const Names<T>& values) {
  std::string names;
  for (const auto& [name, value] : values) names += (names.empty() ? "" : "|") + name;
  const auto check = [values, names](std::string& text) -> std::string {
    const auto found = values.find(CLI::detail::to_lower(text));
    if (found == values.end()) return "'" + text + "' is not one of " + names;
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

// Unlike CLI::Range, rejects nan.
CLI::Validator number_in(const std::string& low, const std::string& high) {
  const std::string range = low + " to " + high;
  const auto check = [range, least = std::stod(low), most = std::stod(high)](const std::string& text) -> std::string {
    double value = 0;
    const bool within = CLI::detail::lexical_cast(text, value) && value >= least && value <= most;
    return within ? "" : "'" + text + "' is not a number from " + range;
  };
  return {check, range};
}

struct WholeNumbers {
  int low, high;
};

template <class T>
void add_whole(CLI::App& app, const std::string& name, T& value, const WholeNumbers& range, const std::string& text) {
  const std::string values = std::to_string(range.low) + " to " + std::to_string(range.high);
  app.add_option(name, value, text)->check(CLI::Range(range.low, range.high, values));
}

// `value` holds the default.
template <class T>
void add_choice(CLI::App& app, const std::string& name, T& value, const Names<T>& names, const std::string& text) {
  app.add_option(name, value, text)->transform(one_of(names))->default_str(name_of(names, value));
}

void add_data(CLI::App& app, Options& o) {
  app.add_option("--data", o.data, "folder with train/ and val/, or synthetic:device|host|jpeg")->required();
  add_whole(app, "--classes", o.classes, {0, 1000000},
            "number of classes, 0: number of class folders (synthetic data: 1000)");
  add_whole(app, "--synthetic-images", o.synthetic_images, {1, 1000000000}, "images in a synthetic epoch");
  add_whole(app, "--image-size", o.image_size, {8, 4096}, "pixels per side");
  app.add_option("--max-broken", o.max_broken,
                 "damaged files allowed in an epoch, over all ranks; more end the run with an error")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 40, "0 or more"))
      ->default_str("1 % of the files read, at least 10");
  add_whole(app, "--workers", o.workers, {0, 1024}, "loader threads per rank, 0: half of the rank's cores");
}

void add_run(CLI::App& app, Options& o) {
  app.add_option("--arch", o.arch, "network")
      ->check(CLI::IsMember({"resnet18", "resnet34", "resnet50", "resnet101", "resnet152"}));
  add_whole(app, "--epochs", o.epochs, {1, 100000}, "passes over the training images");
  add_whole(app, "--steps", o.steps, {0, 1000000000}, "stop after this number of steps, 0: no limit");
  add_whole(app, "--batch", o.batch, {1, 65536}, "images per rank and step");
  add_whole(app, "--val-batch", o.val_batch, {0, 65536}, "images per rank in a validation batch, 0: as --batch");
  app.add_option("--seed", o.seed, "seed of the initial weights, the order of the images and their augmentation");
  add_whole(app, "--threads", o.threads, {0, 1024},
            "LibTorch threads per rank, 0: OMP_NUM_THREADS, else the rank's cores");
  add_choice(app, "--sync", o.sync, kOnOff, "off: each rank trains its own model (for measuring)");
  add_choice(app, "--shared-gradients", o.shared_gradients, kChoices,
             "reduce gradients in shared memory, without packing (CPU; all ranks on one host, or each rank on its own "
             "host); auto: on if possible");
  add_choice(app, "--overlap-update", o.overlap_update, kChoices,
             "update each weight as soon as its gradient is reduced (CPU; --optimizer fused); auto: on if possible");
  add_choice(app, "--device", o.device, kDevices, "cpu, or cuda: one GPU for each rank");
  add_choice(app, "--amp", o.amp, kAmps, "mixed precision: off, bf16, or fp16 with loss scaling");
  add_choice(app, "--memory-format", o.channels_last, kMemoryFormats,
             "memory format of images and convolution weights");
  app.add_flag("--check", o.check, "compare options, file names and labels of all ranks, then end without training");
  app.add_option("--json", o.json, "file for JSON lines")->check(not_empty());
  add_whole(app, "--log-interval", o.log_interval, {1, 1000000},
            "steps between two reports; a report writes JSON lines and updates the console");
  app.add_option("--checkpoint-dir", o.checkpoint_dir, "directory for checkpoints, one for each epoch")
      ->check(not_empty());
  add_whole(app, "--keep-checkpoints", o.keep_checkpoints, {0, 1000000}, "number of checkpoints kept, 0: all");
  add_choice(app, "--on-nan", o.on_nan, kOnNan,
             "stop: error after 20 consecutive steps with a non-finite loss, or at the end of an epoch with a "
             "non-finite weight; warn: warnings only");
  app.add_option("--resume", o.resume, "checkpoint to resume from; for a directory: its newest checkpoint")
      ->check(not_empty());
}

void add_recipe(CLI::App& app, Options& o) {
  const auto add_number = [&](const char* name, auto& value, const CLI::Validator& range, const char* text) {
    return app.add_option(name, value, text)->check(range);
  };
  const auto positive = number_in("1e-6", "1e6"), zero_or_more = number_in("0", "1e6"), fraction = number_in("0", "1");
  add_number("--lr", o.lr, positive, "learning rate for a global batch of 256, scaled linearly");
  add_number("--warmup-epochs", o.warmup_epochs, zero_or_more,
             "epochs in which the learning rate rises; if not given, at most --epochs");
  add_choice(app, "--schedule", o.schedule, kSchedules,
             "learning rate schedule; step: divided by 10 at each of --milestones; cosine: half a cosine down to 0");
  add_number("--milestones", o.milestones, zero_or_more, "epochs of the step schedule, separated by commas")
      ->delimiter(',');
  add_number("--momentum", o.momentum, fraction, "momentum of SGD");
  app.add_flag("--nesterov", o.nesterov, "Nesterov's momentum");
  add_number("--weight-decay", o.weight_decay, zero_or_more, "fraction of each weight that is added to its gradient");
  app.add_flag("--no-decay-norm-bias", o.no_decay_norm_bias, "no weight decay on BatchNorm and biases");
  add_number("--label-smoothing", o.label_smoothing, fraction, "part of each label that is spread over all classes");
  app.add_flag("--zero-init-residual", o.zero_init_residual, "start each block's last BatchNorm at 0");
  add_choice(app, "--optimizer", o.optimizer, kOptimizers, "fused (kolo's SGD) or torch (torch::optim::SGD)");
}

DataKind kind_of(const std::string& data) {
  if (data.rfind("synthetic", 0) != 0 || std::filesystem::exists(data)) return DataKind::folder;
  const std::string kind = data.substr(std::min<std::size_t>(10, data.size()));
  if (kind == "device") return DataKind::synthetic_device;
  if (kind == "host") return DataKind::synthetic_host;
  if (kind == "jpeg") return DataKind::synthetic_jpeg;
  throw kolo::UsageError("--data: unknown synthetic data '" + data +
                         "'; use synthetic:device, synthetic:host, synthetic:jpeg or an existing folder");
}

// Checks that need more than one option.
void check_together(const Options& o) {
  const auto require = [](bool condition, const std::string& text) {
    if (!condition) throw kolo::UsageError(text);
  };
  require(o.warmup_epochs <= o.epochs,
          "--warmup-epochs must be at most --epochs, which is " + std::to_string(o.epochs));
  require(std::ranges::adjacent_find(o.milestones, std::greater_equal{}) == o.milestones.end(),
          "--milestones must be in increasing order");
  require(!o.nesterov || o.momentum > 0, "--nesterov needs a --momentum above 0");
  require(o.sync || (o.checkpoint_dir.empty() && o.resume.empty()),
          "--checkpoint-dir and --resume need --sync on; with --sync off each rank trains its own model");
  for (const auto& [option, choice] :
       {std::pair("--shared-gradients on ", o.shared_gradients), std::pair("--overlap-update on ", o.overlap_update)}) {
    if (choice != Choice::on) continue;
    require(o.sync, std::string(option) + "needs --sync on; --sync off reduces no gradients");
    require(o.device == DeviceKind::cpu,
            std::string(option) + "needs --device cpu; with --device cuda use auto or off");
  }
  require(o.overlap_update != Choice::on || can_overlap(o),
          "--overlap-update on needs --optimizer fused, and --amp off or bf16: --amp fp16 needs all gradients before a "
          "step");
  require(o.data_kind != DataKind::folder || !o.data.empty(), "--data is empty. Is a shell variable unset?");
}

}  // namespace

bool can_overlap(const Options& o) noexcept { return o.optimizer == OptimizerKind::fused && o.amp != Amp::fp16; }

std::optional<Options> parse_options(int argc, const char* const* argv, std::ostream& out) {
  Options o;
  CLI::App app(
      "Trains a ResNet on ImageNet-like data, one process per rank: mpirun -np P imagenet_resnet50 --data DIR");
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
    throw kolo::UsageError("unknown argument '" + app.remaining().front() + "'; --help lists all options");
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

json recipe_of(const Options& o) {
  return {{"lr", o.lr},
          {"warmup_epochs", o.warmup_epochs},
          {"schedule", name_of(kSchedules, o.schedule)},
          {"milestones", o.milestones},
          {"epochs", o.epochs},
          {"momentum", o.momentum},
          {"nesterov", o.nesterov},
          {"weight_decay", o.weight_decay},
          {"no_decay_norm_bias", o.no_decay_norm_bias},
          {"label_smoothing", o.label_smoothing},
          {"zero_init_residual", o.zero_init_residual},
          {"optimizer", name_of(kOptimizers, o.optimizer)},
          {"seed", o.seed}};
}

json json_of(const Options& o) {
  json all = {{"arch", o.arch},
              {"data", o.data},
              {"classes", o.classes},
              {"synthetic_images", o.synthetic_images},
              {"image_size", o.image_size},
              {"steps", o.steps},
              {"batch", o.batch},
              {"val_batch", o.val_batch},
              {"sync", name_of(kOnOff, o.sync)},
              {"shared_gradients", name_of(kChoices, o.shared_gradients)},
              {"overlap_update", name_of(kChoices, o.overlap_update)},
              {"memory_format", name_of(kMemoryFormats, o.channels_last)},
              {"device", name_of(kDevices, o.device)},
              {"amp", name_of(kAmps, o.amp)},
              {"threads", o.threads},
              {"workers", o.workers},
              {"check", o.check},
              {"max_broken", o.max_broken},
              {"log_interval", o.log_interval},
              {"on_nan", name_of(kOnNan, o.on_nan)}};
  all.update(recipe_of(o));
  return all;
}

// A folder may have another path on each host.
std::string common_options(const Options& o) {
  json common = json_of(o);
  for (const char* local : {"threads", "workers"}) common.erase(local);
  if (o.data_kind == DataKind::folder) common["data"] = "a folder";
  common["checkpoint_dir"] = o.checkpoint_dir.empty() ? "not given" : "given";
  common["resume"] = o.resume.empty() ? "not given" : "given";
  return json_text(common);
}

std::string difference_of(const std::vector<std::string>& common_options) {
  const json first = json::parse(common_options.at(0));
  for (std::size_t rank = 1; rank < common_options.size(); ++rank) {
    const json other = json::parse(common_options[rank]);
    for (const auto& [name, value] : first.items()) {
      if (other.at(name) == value) continue;
      std::string option = "--" + name;
      std::ranges::replace(option, '_', '-');
      return "all ranks need the same options, but " + option + " is " + json_text(value) + " on rank 0 and " +
             json_text(other.at(name)) + " on rank " + std::to_string(rank);
    }
  }
  return "";
}

}  // namespace imagenet
