#include "snapshot.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <ios>
#include <map>
#include <sstream>
#include <system_error>

#include "kolo/checkpoint.h"
#include "kolo/error.h"
#include "optimizer.h"
#include "ranks.h"
#include "recipe.h"

namespace imagenet {
namespace {

namespace checkpoint = kolo::checkpoint;

kolo::DType dtype_of(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kFloat:
      return kolo::DType::f32;
    case at::kLong:
      return kolo::DType::i64;
    case at::kByte:
      return kolo::DType::u8;
    default:
      throw kolo::UsageError("a checkpoint of this trainer holds float, int64 and bytes only");
  }
}

void write_tensors(const std::filesystem::path& file, const NamedState& state) {
  std::vector<at::Tensor> row_major;  // owns what the views point into
  std::vector<checkpoint::TensorView> views;
  for (const auto& [name, tensor] : state) {
    row_major.push_back(tensor.detach().cpu().contiguous());
    const at::Tensor& t = row_major.back();
    views.push_back(
        {name, dtype_of(t), t.sizes().vec(), {static_cast<const std::byte*>(t.const_data_ptr()), t.nbytes()}});
  }
  // "pt" is what Python's loaders look for.
  checkpoint::write_safetensors(file, views, {{"format", "pt"}});
}

// Fills `state`, whose tensors must be exactly the file's, by name, shape and type.
void read_tensors(const checkpoint::SafetensorsFile& file, const std::string& what, const NamedState& state) {
  if (file.tensors().size() != state.size()) {
    throw kolo::UsageError("--resume: " + what + " has " + std::to_string(file.tensors().size()) +
                           " tensors, this run " + std::to_string(state.size()) + ": not the same network?");
  }
  for (const auto& [name, tensor] : state) {
    if (!file.contains(name)) throw kolo::UsageError("--resume: " + what + " has no " + name);
    const checkpoint::TensorView& view = file.at(name);
    if (view.dtype != dtype_of(tensor) || tensor.sizes() != at::IntArrayRef(view.shape)) {
      throw kolo::UsageError("--resume: " + what + ": " + name + " has another shape or type than in this run");
    }
    const at::Tensor values =
        at::empty(tensor.sizes(), tensor.options().device(at::kCPU), at::MemoryFormat::Contiguous);
    std::memcpy(values.data_ptr(), view.bytes.data(), view.bytes.size());
    tensor.detach().copy_(values);
  }
}

at::Tensor random_state() { return at::detail::getDefaultCPUGenerator().get_state(); }

// A row a rank.
at::Tensor gather_random_states(kolo::Context& context) {
  const at::Tensor mine = random_state().contiguous();
  const auto rows = gather(context, {static_cast<const char*>(mine.const_data_ptr()), mine.nbytes()});
  at::Tensor all = at::empty({context.size(), mine.numel()}, mine.options());
  for (std::size_t r = 0; r < rows.size(); ++r) {
    std::memcpy(all[static_cast<std::int64_t>(r)].data_ptr(), rows[r].data(), rows[r].size());
  }
  return all;
}

// A rank that the saved run did not have keeps the state it has.
void set_random_state(const checkpoint::SafetensorsFile& file, kolo::Rank rank) {
  const auto& view = file.at("cpu_generator");
  at::Tensor state = random_state();
  if (view.shape.size() != 2 || view.shape[1] != state.numel() || rank >= view.shape[0]) return;
  std::memcpy(state.data_ptr(), view.bytes.data() + rank * state.numel(), state.nbytes());
  auto generator = at::detail::getDefaultCPUGenerator();
  generator.set_state(state);
}

NamedState momentum_state(const torch::nn::Module& model, torch::optim::Optimizer& optimizer) {
  NamedState state;
  for (const auto& parameter : model.named_parameters()) {
    const at::Tensor buffer = momentum_of(optimizer, parameter.value());
    if (buffer.defined()) state.emplace_back("momentum_buffer." + parameter.key(), buffer);
  }
  return state;
}

void restore_momentum(const checkpoint::SafetensorsFile& file, const torch::nn::Module& model,
                      torch::optim::Optimizer& optimizer) {
  NamedState state;
  for (const auto& parameter : model.named_parameters()) {
    const std::string name = "momentum_buffer." + parameter.key();
    if (!file.contains(name)) continue;
    const at::Tensor buffer = at::zeros_like(parameter.value());  // in the parameter's strides
    state.emplace_back(name, buffer);
    set_momentum(optimizer, parameter.value(), buffer);
  }
  read_tensors(file, "optimizer.safetensors", state);
}

// Nothing where the run had no loss scaling.
std::optional<kolo::GradScaler::State> scaler_state(const std::map<std::string, std::string>& metadata) {
  const auto scale = metadata.find("loss_scale");
  const auto steps = metadata.find("loss_scale_good_steps");
  if (scale == metadata.end() || steps == metadata.end()) return std::nullopt;
  return kolo::GradScaler::State{std::strtod(scale->second.c_str(), nullptr), std::stoll(steps->second)};
}

// Throws kolo::UsageError if the metadata have no such number, unless there is a default.
std::int64_t number_of(const std::map<std::string, std::string>& metadata, const std::string& name,
                       std::optional<std::int64_t> otherwise = std::nullopt) {
  const auto it = metadata.find(name);
  if (it == metadata.end() && otherwise) return *otherwise;
  std::int64_t number = -1;
  if (it != metadata.end()) {
    const char* const end = it->second.data() + it->second.size();
    const auto [at, error] = std::from_chars(it->second.data(), end, number);
    if (error == std::errc() && at == end && number >= 0) return number;
  }
  throw kolo::UsageError("--resume: metadata '" + name + "' of the checkpoint is " +
                         (it == metadata.end() ? "missing" : "'" + it->second + "', expected a whole number >= 0") +
                         ". Name another checkpoint");
}

checkpoint::Checkpoint find(const std::filesystem::path& path, std::vector<std::string>& skipped) {
  if (std::filesystem::exists(path / "manifest.json")) return checkpoint::CheckpointDirectory::verify(path);
  if (auto newest = checkpoint::CheckpointDirectory(path).latest(&skipped)) return *newest;
  std::string text = "--resume: there is no complete checkpoint in " + path.string();
  for (const auto& line : skipped) text += "\n  " + line;
  throw kolo::UsageError(text);
}

// Rank 0's disk is enough: the others get the bytes.
checkpoint::SafetensorsFile fetch(kolo::Context& context, const std::filesystem::path& file) {
  const std::string bytes = from_rank_0(context, [&] {
    const auto content = checkpoint::read_file(file);
    return std::string(reinterpret_cast<const char*>(content.data()), content.size());
  });
  const auto* begin = reinterpret_cast<const std::byte*>(bytes.data());
  return {file.filename().string(), std::vector<std::byte>(begin, begin + bytes.size())};
}

// This run's would be mixed with them: its older ones are deleted first, and --resume would take theirs. Its own are
// those that it goes on from: all in the folder, or one of them, if it is the newest.
void refuse_others_checkpoints(const std::filesystem::path& folder, const std::string& resume) {
  std::error_code missing;  // said where it is read
  if (!resume.empty() && !std::filesystem::exists(resume, missing)) return;
  const auto newest = checkpoint::CheckpointDirectory(folder).latest();
  if (!newest) return;
  const auto goes_on_from = [&](const std::filesystem::path& place) {
    return !resume.empty() && std::filesystem::equivalent(resume, place, missing);
  };
  if (goes_on_from(folder) || goes_on_from(newest->folder)) return;
  throw kolo::UsageError("--checkpoint-dir: " + folder.string() + " has " +
                         (resume.empty() ? "an earlier run's checkpoints" : "other checkpoints than --resume names") +
                         ", the newest of step " + std::to_string(newest->info.step) + "; go on with --resume " +
                         folder.string() + ", or name another folder");
}

// Warnings about training images that are not those of the checkpoint; throws if a label or the position in the epoch
// would mean something else. `images`: of the unfinished epoch, done. Checkpoints of synthetic data have no
// fingerprint.
std::vector<std::string> compare_data(const checkpoint::Metadata& saved, const checkpoint::Metadata& fingerprint,
                                      std::int64_t images) {
  const auto differs = [&](const std::string& name) {
    const auto before = saved.find(name);
    const auto now = fingerprint.find(name);
    return before != saved.end() && now != fingerprint.end() && before->second != now->second;
  };
  if (differs("class_names")) {
    throw kolo::UsageError(
        "--resume: the class names of --data are not those of the checkpoint, so its labels would mean other classes. "
        "Use the data set that the checkpoint was trained on");
  }
  if (!differs("samples") && !differs("sample_names")) return {};
  const std::string text = "the training images of --data are not those of the checkpoint: " +
                           (differs("samples") ? saved.at("samples") + " images in the checkpoint, " +
                                                     fingerprint.at("samples") + " in this run"
                                               : "names or labels differ");
  if (images > 0) {
    throw kolo::UsageError("--resume: " + text + ". The checkpoint is inside an epoch, so images would repeat or be " +
                           "missing. Use the same images, or a checkpoint of an epoch's end");
  }
  return {text};
}

// What the user should know of the checkpoint that this run goes on from.
std::vector<std::string> warnings_of(const checkpoint::Checkpoint& found, const Options& options, int ranks,
                                     const std::vector<std::string>& passed_over) {
  std::vector<std::string> warnings;
  for (const auto& line : passed_over) warnings.push_back("passed over, damaged: " + line);
  std::string text;
  for (const auto& line :
       checkpoint::CheckpointDirectory::differences(found.info.metadata, settings_of(options, ranks))) {
    text += (text.empty() ? "" : "; ") + line;
  }
  if (!text.empty()) warnings.push_back("settings differ, those of this run are used: " + text);
  if (found.info.finite) return warnings;
  text = "weights of " + found.folder.string() + " are not finite";
  for (const auto& one : checkpoint::CheckpointDirectory(found.folder.parent_path()).list()) {
    if (!one.info.finite) continue;
    text = "weights of " + found.folder.string() + " are not finite. To use finite weights: --resume " +
           one.folder.string() + " with another --checkpoint-dir";
  }
  warnings.push_back(text);
  return warnings;
}

}  // namespace

NamedState state_of(const torch::nn::Module& model) {
  NamedState state;
  const auto add = [&](const std::string& prefix, const torch::nn::Module& module) {
    for (const auto& p : module.named_parameters(/*recurse=*/false)) state.emplace_back(prefix + p.key(), p.value());
    for (const auto& b : module.named_buffers(/*recurse=*/false)) state.emplace_back(prefix + b.key(), b.value());
  };
  add("", model);
  for (const auto& module : model.named_modules("", /*include_self=*/false)) add(module.key() + ".", *module.value());
  return state;
}

std::unique_ptr<checkpoint::CheckpointDirectory> prepare_checkpoint_dir(kolo::Context& context, const Options& options,
                                                                        std::string& notice) {
  std::unique_ptr<checkpoint::CheckpointDirectory> directory;
  from_rank_0(context, [&] {
    std::error_code error;
    std::filesystem::create_directories(options.checkpoint_dir, error);
    if (!error && access(options.checkpoint_dir.c_str(), W_OK | X_OK) != 0) error = {errno, std::generic_category()};
    if (error) {
      throw kolo::UsageError("--checkpoint-dir: " + options.checkpoint_dir +
                             " cannot be created or written: " + error.message());
    }
    directory = std::make_unique<checkpoint::CheckpointDirectory>(
        options.checkpoint_dir, checkpoint::CheckpointOptions{.keep = options.keep_checkpoints});
    try {
      notice = directory->lock();
    } catch (const kolo::Error& refusal) {
      throw kolo::UsageError(std::string("--checkpoint-dir: ") + refusal.what());
    }
    refuse_others_checkpoints(options.checkpoint_dir, options.resume);
    return std::string();
  });
  return directory;
}

std::string save_snapshot(kolo::Context& context, checkpoint::CheckpointDirectory* directory, const Options& options,
                          const checkpoint::Metadata& fingerprint, const Position& position,
                          const torch::nn::Module& model, torch::optim::Optimizer& optimizer) {
  const at::NoGradGuard no_grad;
  context.wait_for_devices();  // what the last steps have reduced is whole, or this throws
  const at::Tensor random = gather_random_states(context);
  return from_rank_0(context, [&] {
    checkpoint::CheckpointInfo info;
    info.step = position.step;
    info.epoch = position.epoch;
    const std::int64_t images = position.done_before + position.step_in_epoch * options.batch * context.size();
    info.finite = position.finite;
    info.metadata = settings_of(options, context.size());
    info.metadata.insert(fingerprint.begin(), fingerprint.end());
    info.metadata["arch"] = options.arch;
    info.metadata["ranks"] = std::to_string(context.size());
    info.metadata["batch"] = std::to_string(options.batch);
    info.metadata["images_of_epoch_done"] = std::to_string(images);
    info.metadata["images_with_other_batch"] = std::to_string(position.done_before);
    if (position.scaler) {
      std::ostringstream scale;
      scale << std::hexfloat << position.scaler->scale;  // exactly
      info.metadata["loss_scale"] = scale.str();
      info.metadata["loss_scale_good_steps"] = std::to_string(position.scaler->good_steps);
    }
    return directory
        ->save(info,
               [&](const std::filesystem::path& folder) {
                 write_tensors(folder / "model.safetensors", state_of(model));
                 write_tensors(folder / "optimizer.safetensors", momentum_state(model, optimizer));
                 write_tensors(folder / "random.safetensors", {{"cpu_generator", random}});
               })
        .string();
  });
}

Position load_snapshot(kolo::Context& context, const Options& options, const checkpoint::Metadata& fingerprint,
                       torch::nn::Module& model, torch::optim::Optimizer& optimizer) {
  const at::NoGradGuard no_grad;
  Position position;
  std::int64_t images = 0;  // of the epoch, done
  const std::filesystem::path folder = from_rank_0(context, [&] {
    std::vector<std::string> passed_over;
    const auto found = find(options.resume, passed_over);
    const auto expect = [&](const std::string& key, const std::string& here) {
      const auto it = found.info.metadata.find(key);
      if (it != found.info.metadata.end() && it->second == here) return;
      throw kolo::UsageError("--resume: the checkpoint's " + key + " is " +
                             (it == found.info.metadata.end() ? "missing" : it->second) + ", this run's is " + here);
    };
    expect("arch", options.arch);
    expect("seed", std::to_string(options.seed));
    position.epoch = found.info.epoch;
    position.step = found.info.step;
    images = number_of(found.info.metadata, "images_of_epoch_done");
    position.done_before = number_of(found.info.metadata, "images_with_other_batch", 0);
    position.old_global_batch = number_of(found.info.metadata, "batch") * number_of(found.info.metadata, "ranks");
    position.scaler = scaler_state(found.info.metadata);
    position.warnings = warnings_of(found, options, context.size(), passed_over);
    for (auto& warning : compare_data(found.info.metadata, fingerprint, images)) {
      position.warnings.push_back(std::move(warning));
    }
    return found.folder.string();
  });
  std::array<double, 7> numbers{};
  if (context.rank() == 0) {
    const auto scaler = position.scaler.value_or(kolo::GradScaler::State{});
    numbers = {static_cast<double>(position.epoch),
               static_cast<double>(position.step),
               static_cast<double>(images),
               scaler.scale,
               static_cast<double>(scaler.good_steps),
               static_cast<double>(position.done_before),
               static_cast<double>(position.old_global_batch)};
  }
  sum_over_ranks(context, numbers);
  position.epoch = static_cast<std::int64_t>(numbers[0]);
  position.step = static_cast<std::int64_t>(numbers[1]);
  position.scaler.reset();  // on rank 0 too: all have the same, or none
  if (numbers[3] > 0) position.scaler = {numbers[3], static_cast<std::int64_t>(numbers[4])};
  position.done_before = static_cast<std::int64_t>(numbers[5]);
  position.old_global_batch = static_cast<std::int64_t>(numbers[6]);
  // The sampler's order does not depend on the number of ranks, so that an epoch can go on with other ranks or batches.
  images = static_cast<std::int64_t>(numbers[2]);
  const std::int64_t global_batch = std::int64_t{options.batch} * context.size();
  if (global_batch != position.old_global_batch) position.done_before = images;
  position.step_in_epoch = (images - position.done_before) / global_batch;
  read_tensors(fetch(context, folder / "model.safetensors"), "model.safetensors", state_of(model));
  restore_momentum(fetch(context, folder / "optimizer.safetensors"), model, optimizer);
  set_random_state(fetch(context, folder / "random.safetensors"), context.rank());
  return position;
}

}  // namespace imagenet
