#include "checkpoints.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>
#include <torch/optim/sgd.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <ios>
#include <nlohmann/json.hpp>
#include <sstream>
#include <system_error>

#include "kolo/error.h"
#include "model.h"
#include "ranks.h"
#include "report.h"

namespace imagenet {
namespace {

namespace checkpoint = kolo::checkpoint;
namespace fs = std::filesystem;

// --- tensors ------------------------------------------------------------------------------------------------------

kolo::DType dtype_of(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kFloat:
      return kolo::DType::f32;
    case at::kLong:
      return kolo::DType::i64;
    case at::kByte:
      return kolo::DType::u8;
    default:
      throw kolo::UsageError(std::string("cannot save a tensor of type ") + c10::toString(tensor.scalar_type()) +
                             " in a checkpoint; supported are float, int64 and uint8");
  }
}

void write_tensors(const fs::path& file, const NamedState& state) {
  std::vector<at::Tensor> row_major;  // owns the memory of the views
  std::vector<checkpoint::TensorView> views;
  for (const auto& [name, tensor] : state) {
    row_major.push_back(tensor.detach().cpu().contiguous());
    const at::Tensor& t = row_major.back();
    views.push_back(
        {name, dtype_of(t), t.sizes().vec(), {static_cast<const std::byte*>(t.const_data_ptr()), t.nbytes()}});
  }
  checkpoint::write_safetensors(file, views, {{"format", "pt"}});  // the value that Python's loaders expect
}

// Fills `state` from a file that must have exactly its tensors, by name, shape and type.
void read_tensors(const checkpoint::SafetensorsFile& file, const std::string& what, const NamedState& state) {
  if (file.tensors().size() != state.size()) {
    throw kolo::UsageError("--resume: " + what + " has " + std::to_string(file.tensors().size()) +
                           " tensors, this run has " + std::to_string(state.size()) +
                           ". Use a checkpoint of the same network");
  }
  for (const auto& [name, tensor] : state) {
    if (!file.contains(name)) {
      throw kolo::UsageError("--resume: " + what + " has no tensor '" + name +
                             "'. Use a checkpoint of the same network");
    }
    const checkpoint::TensorView& view = file.at(name);
    if (view.dtype != dtype_of(tensor) || tensor.sizes() != at::IntArrayRef(view.shape)) {
      std::ostringstream text;
      text << "--resume: " << what << ": tensor '" << name << "' is " << kolo::name_of(view.dtype) << " "
           << at::IntArrayRef(view.shape) << ", this run needs " << kolo::name_of(dtype_of(tensor)) << " "
           << tensor.sizes() << ". Is --classes that of the checkpoint?";
      throw kolo::UsageError(text.str());
    }
    const at::Tensor values =
        at::empty(tensor.sizes(), tensor.options().device(at::kCPU), at::MemoryFormat::Contiguous);
    std::memcpy(values.data_ptr(), view.bytes.data(), view.bytes.size());
    tensor.detach().copy_(values);
  }
}

NamedState momentum_of(const RunState& run) {
  NamedState state;
  for (const auto& parameter : run.model.named_parameters()) {
    const auto found = run.optimizer.state().find(parameter.value().unsafeGetTensorImpl());
    if (found == run.optimizer.state().end()) continue;
    const at::Tensor buffer = static_cast<torch::optim::SGDParamState&>(*found->second).momentum_buffer();
    if (buffer.defined()) state.emplace_back("momentum_buffer." + parameter.key(), buffer);
  }
  return state;
}

void restore_momentum(const checkpoint::SafetensorsFile& file, const RunState& run) {
  NamedState state;
  for (const auto& parameter : run.model.named_parameters()) {
    const std::string name = "momentum_buffer." + parameter.key();
    if (!file.contains(name)) continue;
    state.emplace_back(name, at::zeros_like(parameter.value()));  // with the parameter's strides
    auto momentum = std::make_unique<torch::optim::SGDParamState>();
    momentum->momentum_buffer(state.back().second);
    run.optimizer.state()[parameter.value().unsafeGetTensorImpl()] = std::move(momentum);
  }
  read_tensors(file, "optimizer.safetensors", state);
}

at::Tensor random_state() { return at::detail::getDefaultCPUGenerator().get_state(); }

// One row for each rank.
at::Tensor gather_random_states(kolo::Context& context) {
  const at::Tensor mine = random_state().contiguous();
  const auto rows = gather(context, {static_cast<const char*>(mine.const_data_ptr()), mine.nbytes()});
  at::Tensor all = at::empty({context.size(), mine.numel()}, mine.options());
  for (std::size_t r = 0; r < rows.size(); ++r) {
    std::memcpy(all[static_cast<std::int64_t>(r)].data_ptr(), rows[r].data(), rows[r].size());
  }
  return all;
}

// A rank that the saved run did not have keeps its state.
void restore_random_state(const checkpoint::SafetensorsFile& file, kolo::Rank rank) {
  const auto& view = file.at("cpu_generator");
  at::Tensor state = random_state();
  if (view.shape.size() != 2 || view.shape[1] != state.numel() || rank >= view.shape[0]) return;
  std::memcpy(state.data_ptr(), view.bytes.data() + rank * state.numel(), state.nbytes());
  auto generator = at::detail::getDefaultCPUGenerator();
  generator.set_state(state);
}

// Only rank 0 reads the disk.
checkpoint::SafetensorsFile read_on_rank_0(kolo::Context& context, const fs::path& file) {
  const std::string bytes = from_rank_0(context, [&] {
    const auto content = checkpoint::read_file(file);
    return std::string(reinterpret_cast<const char*>(content.data()), content.size());
  });
  const auto* begin = reinterpret_cast<const std::byte*>(bytes.data());
  return {file.filename().string(), std::vector<std::byte>(begin, begin + bytes.size())};
}

// --- metadata -----------------------------------------------------------------------------------------------------

// The settings that results depend on.
checkpoint::Metadata settings_of(const Options& o, int ranks) {
  nlohmann::ordered_json all = recipe_of(o);
  all["global_batch"] = std::int64_t{o.batch} * ranks;
  const auto options = json_of(o);
  for (const char* name : {"image_size", "classes", "amp"}) all[name] = options[name];
  if (o.data_kind != DataKind::folder) all["synthetic_images"] = o.synthetic_images;
  checkpoint::Metadata settings;
  for (const auto& [name, value] : all.items()) {
    settings[name] = value.is_string() ? value.get<std::string>() : json_text(value);
  }
  return settings;
}

// Throws kolo::UsageError unless the value is a whole number or, if there is a default, missing.
std::int64_t number_of(const checkpoint::Metadata& metadata, const std::string& name,
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
                         ". Use another checkpoint");
}

void require_equal(const checkpoint::Metadata& saved, const std::string& name, const std::string& here) {
  const auto it = saved.find(name);
  if (it != saved.end() && it->second == here) return;
  const std::string theirs = it == saved.end() ? "missing" : it->second;
  throw kolo::UsageError("--resume: " + name + " is " + theirs + " in the checkpoint, " + here + " in this run. " +
                         (it == saved.end() ? "Use another checkpoint" : "Set --" + name + " " + theirs));
}

// Empty if the saved run had no loss scaling.
std::optional<kolo::GradScaler::State> scaler_of(const checkpoint::Metadata& saved) {
  const auto scale = saved.find("loss_scale");
  if (scale == saved.end()) return std::nullopt;
  return kolo::GradScaler::State{std::strtod(scale->second.c_str(), nullptr),
                                 number_of(saved, "loss_scale_good_steps")};
}

// Returns warnings about training images that differ from those of the checkpoint. Throws if a label or the position in
// the epoch would get another meaning. `images_done`: of the unfinished epoch. Checkpoints of synthetic data have no
// fingerprint.
std::vector<std::string> compare_images(const checkpoint::Metadata& saved, const checkpoint::Metadata& fingerprint,
                                        std::int64_t images_done) {
  const auto differs = [&](const std::string& name) {
    const auto before = saved.find(name);
    const auto now = fingerprint.find(name);
    return before != saved.end() && now != fingerprint.end() && before->second != now->second;
  };
  if (differs("class_names")) {
    throw kolo::UsageError(
        "--resume: the class names of --data differ from those of the checkpoint, so labels would mean other classes. "
        "Use the data set that the checkpoint was trained on");
  }
  if (!differs("samples") && !differs("sample_names")) return {};
  const std::string text = "the training images of --data differ from those of the checkpoint: " +
                           (differs("samples") ? saved.at("samples") + " images in the checkpoint, " +
                                                     fingerprint.at("samples") + " in this run"
                                               : "names or labels differ");
  if (images_done > 0) {
    throw kolo::UsageError("--resume: " + text + ". The checkpoint is inside an epoch, so images would repeat or be " +
                           "missing. Use the same images, or a checkpoint from the end of an epoch");
  }
  return {text};
}

// --- directories --------------------------------------------------------------------------------------------------

checkpoint::Checkpoint find(const fs::path& path, std::vector<std::string>& skipped) {
  if (fs::exists(path / "manifest.json")) return checkpoint::CheckpointDirectory::verify(path);
  if (auto newest = checkpoint::CheckpointDirectory(path).latest(&skipped)) return *newest;
  std::string text = "--resume: no complete checkpoint in " + path.string();
  for (const auto& line : skipped) text += "\n  " + line;
  throw kolo::UsageError(text + "\nUse another directory, or start without --resume");
}

std::string not_finite_warning(const checkpoint::Checkpoint& found) {
  std::string text = "weights of " + found.folder.string() + " are not finite", advice;
  for (const auto& other : checkpoint::CheckpointDirectory(found.folder.parent_path()).list()) {
    if (!other.info.finite) continue;
    advice = ". To use finite weights: --resume " + other.folder.string() + " with another --checkpoint-dir";
  }
  return text + advice;
}

// A run must not write among the checkpoints of another run: save() would delete the older ones, and --resume would
// find the newer ones. A run continues the checkpoints of `folder` if --resume names it or its newest checkpoint.
void refuse_others_checkpoints(const fs::path& folder, const std::string& resume) {
  std::error_code missing;  // load_checkpoint() reports it
  if (!resume.empty() && !fs::exists(resume, missing)) return;
  const auto newest = checkpoint::CheckpointDirectory(folder).latest();
  if (!newest) return;
  for (const fs::path& place : {folder, newest->folder}) {
    if (!resume.empty() && fs::equivalent(resume, place, missing)) return;
  }
  throw kolo::UsageError("--checkpoint-dir: " + folder.string() + " has checkpoints " +
                         (resume.empty() ? "of an earlier run" : "other than that of --resume") +
                         ", the newest of step " + std::to_string(newest->info.step) + ". Continue it with --resume " +
                         folder.string() + ", or use another directory");
}

}  // namespace

std::unique_ptr<checkpoint::CheckpointDirectory> prepare_checkpoint_dir(kolo::Context& context, const Options& options,
                                                                        std::string& notice) {
  std::unique_ptr<checkpoint::CheckpointDirectory> directory;
  from_rank_0(context, [&] {
    std::error_code error;
    fs::create_directories(options.checkpoint_dir, error);
    if (!error && access(options.checkpoint_dir.c_str(), W_OK | X_OK) != 0) error = {errno, std::generic_category()};
    if (error) {
      throw kolo::UsageError("--checkpoint-dir: cannot create or write " + options.checkpoint_dir + ": " +
                             error.message());
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

std::string save_checkpoint(kolo::Context& context, checkpoint::CheckpointDirectory* directory, const RunState& run,
                            const Position& position) {
  const at::NoGradGuard no_grad;
  context.wait_for_devices();  // throws if a reduction of the last steps failed
  const at::Tensor random = gather_random_states(context);
  return from_rank_0(context, [&] {
    const Options& options = run.options;
    checkpoint::CheckpointInfo info;
    info.step = position.step;
    info.epoch = position.epoch;
    info.finite = position.finite;
    info.metadata = settings_of(options, context.size());
    info.metadata.insert(run.fingerprint.begin(), run.fingerprint.end());
    info.metadata["arch"] = options.arch;
    info.metadata["ranks"] = std::to_string(context.size());
    info.metadata["batch"] = std::to_string(options.batch);
    info.metadata["images_of_epoch_done"] =
        std::to_string(position.done_before + position.step_in_epoch * options.batch * context.size());
    info.metadata["images_with_other_batch"] = std::to_string(position.done_before);
    if (position.scaler) {
      std::ostringstream scale;
      scale << std::hexfloat << position.scaler->scale;  // exact
      info.metadata["loss_scale"] = scale.str();
      info.metadata["loss_scale_good_steps"] = std::to_string(position.scaler->good_steps);
    }
    const auto write = [&](const fs::path& folder) {
      write_tensors(folder / "model.safetensors", state_of(run.model));
      write_tensors(folder / "optimizer.safetensors", momentum_of(run));
      write_tensors(folder / "random.safetensors", {{"cpu_generator", random}});
    };
    return directory->save(info, write).string();
  });
}

Position load_checkpoint(kolo::Context& context, const RunState& run) {
  const at::NoGradGuard no_grad;
  const Options& options = run.options;
  Position position;
  fs::path folder;  // on rank 0
  const auto manifest = nlohmann::json::parse(from_rank_0(context, [&] {
    std::vector<std::string> skipped;
    const auto found = find(options.resume, skipped);
    folder = found.folder;
    for (const auto& line : skipped) position.warnings.push_back("skipped damaged checkpoint " + line);
    if (!found.info.finite) position.warnings.push_back(not_finite_warning(found));
    return json_text(
        nlohmann::json{{"step", found.info.step}, {"epoch", found.info.epoch}, {"metadata", found.info.metadata}});
  }));
  const auto saved = manifest.at("metadata").get<checkpoint::Metadata>();
  require_equal(saved, "arch", options.arch);
  require_equal(saved, "seed", std::to_string(options.seed));
  std::string differences;
  for (const auto& line : checkpoint::CheckpointDirectory::differences(saved, settings_of(options, context.size()))) {
    differences += (differences.empty() ? "" : "; ") + line;
  }
  if (!differences.empty()) {
    position.warnings.push_back("settings differ from the checkpoint; this run uses its own: " + differences);
  }
  const std::int64_t images_done = number_of(saved, "images_of_epoch_done");
  for (const auto& line : compare_images(saved, run.fingerprint, images_done)) position.warnings.push_back(line);

  position.step = manifest.at("step");
  position.epoch = manifest.at("epoch");
  position.scaler = scaler_of(saved);
  position.done_before = number_of(saved, "images_with_other_batch", 0);
  position.old_global_batch = number_of(saved, "batch") * number_of(saved, "ranks");
  // The order of the images does not depend on the number of ranks, so an epoch can continue with another global batch.
  const std::int64_t global_batch = std::int64_t{options.batch} * context.size();
  if (global_batch != position.old_global_batch) position.done_before = images_done;
  position.step_in_epoch = (images_done - position.done_before) / global_batch;

  read_tensors(read_on_rank_0(context, folder / "model.safetensors"), "model.safetensors", state_of(run.model));
  restore_momentum(read_on_rank_0(context, folder / "optimizer.safetensors"), run);
  restore_random_state(read_on_rank_0(context, folder / "random.safetensors"), context.rank());
  return position;
}

}  // namespace imagenet
