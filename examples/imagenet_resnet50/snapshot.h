#pragma once
// Everything a run needs to go on, in one directory that is committed at once:
//
//   model.safetensors      parameters and buffers under torchvision's names
//   optimizer.safetensors  momentum_buffer.<parameter>
//   random.safetensors     the state of LibTorch's generator, a row for each rank
//   manifest.json          steps, epochs, recipe; where in the epoch the sampler is; the loss scale
//
// Files hold no trace of devices: what was written on one is read on the other.
#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kolo/checkpoint.h"
#include "kolo/context.h"
#include "kolo/torch/grad_scaler.h"
#include "options.h"

namespace imagenet {

using NamedState = std::vector<std::pair<std::string, at::Tensor>>;

// Parameters and buffers in the order of PyTorch's state_dict().
NamedState state_of(const torch::nn::Module& model);

// How far training is: `step` of them done in all, `step_in_epoch` of them in epoch `epoch`, behind its first
// `done_before` images, which were trained on with another global batch.
struct Position {
  std::int64_t epoch = 0;
  std::int64_t step_in_epoch = 0;
  std::int64_t done_before = 0;
  std::int64_t old_global_batch = 0;  // of the checkpoint
  std::int64_t step = 0;
  std::optional<kolo::GradScaler::State> scaler;  // the last that --amp fp16 has used
  bool finite = true;                             // all weights and BatchNorm statistics
  std::vector<std::string> warnings;              // of load_snapshot, on rank 0
};

// Creates and locks options.checkpoint_dir on rank 0. Null on the other ranks. `notice`: on rank 0, for the user.
// Throws on all ranks if the directory cannot be written, is in use by another job, or has another run's checkpoints.
// Collective.
std::unique_ptr<kolo::checkpoint::CheckpointDirectory> prepare_checkpoint_dir(kolo::Context& context,
                                                                              const Options& options,
                                                                              std::string& notice);

// Rank 0 writes into `directory`, all ranks return together, or throw together. `fingerprint`: of the training images,
// Datasets::fingerprint. Returns the folder. Collective.
std::string save_snapshot(kolo::Context& context, kolo::checkpoint::CheckpointDirectory* directory,
                          const Options& options, const kolo::checkpoint::Metadata& fingerprint,
                          const Position& position, const torch::nn::Module& model, torch::optim::Optimizer& optimizer);

// Rank 0 reads options.resume, and every rank gets the same state. Throws if the checkpoint does not fit the model, the
// options that results depend on, or the training images. Collective.
Position load_snapshot(kolo::Context& context, const Options& options, const kolo::checkpoint::Metadata& fingerprint,
                       torch::nn::Module& model, torch::optim::Optimizer& optimizer);

}  // namespace imagenet
