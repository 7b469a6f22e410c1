#pragma once
// What the command line says: one struct, checked once, read everywhere.
#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

namespace imagenet {

enum class DataKind { folder, synthetic_device, synthetic_host, synthetic_jpeg };
enum class ScheduleKind { step, cosine };
enum class OptimizerKind { fused, torch };
enum class DeviceKind { cpu, cuda };
enum class Amp { off, bf16, fp16 };
enum class Choice { off, on, where_possible };
enum class OnNan { stop, warn };

// Defaults: the classic 90-epoch recipe (batch 32 a rank, learning rate 0.1 for every 256 images of the global batch).
struct Options {
  std::string arch = "resnet50";
  std::string data;  // a folder with train/<class>/ and val/<class>/, or synthetic:device|host|jpeg
  DataKind data_kind = DataKind::folder;
  int classes = 0;                          // 0: what the folder has; 1000 for synthetic data
  std::int64_t synthetic_images = 1281167;  // images of a synthetic epoch, over all ranks
  int image_size = 224;

  int epochs = 90;
  std::int64_t steps = 0;  // stop after so many steps in all, though the schedule ends at `epochs`; 0: no limit
  int batch = 32;          // images a rank and step
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
  bool sync = true;  // false: ranks train alone, which is the floor that synchronous training is measured against
  // Reduced where they lie, without a copy. Possible on the CPU, with all ranks on one host or each on one of its own.
  Choice shared_gradients = Choice::where_possible;
  // Each weight is updated when its gradient is there, while others are reduced. Possible on the CPU, with kolo's SGD.
  Choice overlap_update = Choice::where_possible;
  bool channels_last = true;
  DeviceKind device = DeviceKind::cpu;  // cuda: see kolo::use_cuda()
  Amp amp = Amp::off;                   // fp16: with loss scaling
  int threads = 0;                      // of LibTorch, a rank; 0: OMP_NUM_THREADS, else its share of the host's cores
  int workers = 0;                      // loader threads, a rank; 0: half of its share of the cores, at least one

  bool check = false;            // compare options, file names and labels of all ranks, then end
  std::int64_t max_broken = -1;  // damaged files in an epoch, over all ranks; -1: see allowed_broken()
  std::string json;              // file for JSON lines
  int log_interval = 20;         // steps between two reductions of the metrics, which is when JSON lines are written
  std::string checkpoint_dir;    // written at epoch ends, and where --steps stops
  int keep_checkpoints = 3;
  OnNan on_nan = OnNan::stop;  // what a loss or a weight that is not finite does
  std::string resume;          // a checkpoint, or a folder of them: the newest
};

// Whether the optimizer can update a weight before it has all gradients.
[[nodiscard]] bool may_overlap(const Options& options) noexcept;

// Returns nothing when only help was asked for (and printed to `out`). Throws kolo::UsageError with a text for the
// user.
std::optional<Options> parse_options(int argc, const char* const* argv, std::ostream& out);

}  // namespace imagenet
