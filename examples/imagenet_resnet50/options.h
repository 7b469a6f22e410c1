#pragma once
// The command line as one struct, which parse_options() fills and checks. JSON forms of it serve the --json header,
// checkpoints, and the comparison of the options of all ranks.
#include <cstdint>
#include <iosfwd>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace imagenet {

enum class DataKind { folder, synthetic_device, synthetic_host, synthetic_jpeg };
enum class ScheduleKind { step, cosine };
enum class OptimizerKind { fused, torch };
enum class DeviceKind { cpu, cuda };
enum class Amp { off, bf16, fp16 };
enum class Choice { off, on, automatic };
enum class OnNan { stop, warn };

// Defaults: the classic 90-epoch recipe (batch 32 a rank, learning rate 0.1 for every 256 images of the global batch).
struct Options {
  std::string arch = "resnet50";
  std::string data;  // a folder with train/<class>/ and val/<class>/, or synthetic:device|host|jpeg
  DataKind data_kind = DataKind::folder;
  int classes = 0;                          // 0: the number of class folders; synthetic data: 1000
  std::int64_t synthetic_images = 1281167;  // images of a synthetic epoch, over all ranks
  int image_size = 224;

  int epochs = 90;
  std::int64_t steps = 0;  // the run ends after this number of steps, counted over all epochs; 0: no limit
  int batch = 32;          // images of a rank in a step
  int val_batch = 0;       // 0: the same as batch
  std::uint64_t seed = 1;

  double lr = 0.1;           // for a global batch of 256; scaled linearly
  double warmup_epochs = 5;  // parse_options: at most `epochs`
  ScheduleKind schedule = ScheduleKind::step;
  std::vector<double> milestones = {30, 60, 80};  // epochs after which the step schedule divides by 10
  double momentum = 0.9;
  bool nesterov = false;
  double weight_decay = 1e-4;
  bool no_decay_norm_bias = false;
  double label_smoothing = 0;
  bool zero_init_residual = false;

  OptimizerKind optimizer = OptimizerKind::fused;
  bool sync = true;  // false: each rank trains its own model; the baseline for the cost of synchronization
  Choice shared_gradients = Choice::automatic;  // DistributedOptions::shared_gradients
  Choice overlap_update = Choice::automatic;    // DistributedOptions::overlap_update
  bool channels_last = true;
  DeviceKind device = DeviceKind::cpu;
  Amp amp = Amp::off;  // fp16: with loss scaling
  int threads = 0;     // LibTorch threads of a rank; 0: OMP_NUM_THREADS, else its share of the host's cores
  int workers = 0;     // loader threads of a rank; 0: half of its share of the cores, at least one

  bool check = false;            // compare options, file names and labels of all ranks, then end
  std::int64_t max_broken = -1;  // damaged files in an epoch, over all ranks; -1: see allowed_broken()
  std::string json;              // file for JSON lines
  int log_interval = 20;         // steps between two reductions of the metrics over the ranks
  std::string checkpoint_dir;    // written at the end of each epoch, and at --steps
  int keep_checkpoints = 3;
  OnNan on_nan = OnNan::stop;  // the effect of a loss or a weight that is not finite
  std::string resume;          // a checkpoint, or a directory of checkpoints: the newest
};

// True if the optimizer can update a weight before all gradients are reduced.
[[nodiscard]] bool can_overlap(const Options& options) noexcept;

// Prints to `out` and returns nothing if the user asks for help. Throws kolo::UsageError with a text for the user.
std::optional<Options> parse_options(int argc, const char* const* argv, std::ostream& out);

// Options by name, with underscores for hyphens and values as on the command line.
[[nodiscard]] nlohmann::ordered_json json_of(const Options& options);
// The part of json_of() that describes the training recipe.
[[nodiscard]] nlohmann::ordered_json recipe_of(const Options& options);

// The options that all ranks must have in common, as text: not paths, threads and workers.
[[nodiscard]] std::string common_options(const Options& options);
// Compares the texts of all ranks, in rank order. Names the first option that differs from rank 0, both values and the
// rank; "" if all are equal.
[[nodiscard]] std::string difference_of(const std::vector<std::string>& common_options);

}  // namespace imagenet
