#pragma once
// Saves and restores the state of a run, so that it resumes with the losses of an uninterrupted one. A checkpoint is
// one directory, which appears complete or not at all:
//
//   model.safetensors      parameters and buffers under torchvision's names
//   optimizer.safetensors  momentum_buffer.<parameter>
//   random.safetensors     the state of LibTorch's generator, a row for each rank
//   manifest.json          steps, epochs, recipe; the position in the epoch; the loss scale
//
// Files do not depend on devices: a run on GPUs can resume a run on CPUs, and the reverse.
#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kolo/checkpoint.h"
#include "kolo/context.h"
#include "kolo/torch/grad_scaler.h"
#include "options.h"

namespace imagenet {

// The progress of training. Epoch `epoch` has `step_in_epoch` steps after its first `done_before` images, which were
// trained on with another global batch.
struct Position {
  std::int64_t epoch = 0;
  std::int64_t step_in_epoch = 0;
  std::int64_t done_before = 0;
  std::int64_t old_global_batch = 0;              // of the checkpoint
  std::int64_t step = 0;                          // over all epochs
  std::optional<kolo::GradScaler::State> scaler;  // of the last run with --amp fp16
  bool finite = true;                             // all weights and BatchNorm statistics
  std::vector<std::string> warnings;              // of load_checkpoint(), complete on rank 0 only
};

// The parts of a run that a checkpoint saves, and the settings that it is compared with.
struct RunState {
  const Options& options;
  const kolo::checkpoint::Metadata& fingerprint;  // Datasets::fingerprint
  torch::nn::Module& model;
  torch::optim::Optimizer& optimizer;
};

// Creates and locks options.checkpoint_dir on rank 0, and returns null on other ranks. `notice`: for the user, on rank
// 0. All ranks throw if the directory cannot be written, another job uses it, or it has checkpoints of another run.
// Collective.
std::unique_ptr<kolo::checkpoint::CheckpointDirectory> prepare_checkpoint_dir(kolo::Context& context,
                                                                              const Options& options,
                                                                              std::string& notice);

// Rank 0 writes into `directory`. Returns the path of the checkpoint. All ranks return, or all throw. Collective.
std::string save_checkpoint(kolo::Context& context, kolo::checkpoint::CheckpointDirectory* directory,
                            const RunState& run, const Position& position);

// Rank 0 reads options.resume, and all ranks get its state. Throws if the checkpoint does not fit the model, the seed,
// or the training images. Collective.
Position load_checkpoint(kolo::Context& context, const RunState& run);

}  // namespace imagenet
