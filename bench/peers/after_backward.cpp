// Trains ResNet-50 as imagenet_resnet50 does, but averages the gradients with MPI after backward, without kolo:
//
//   mpirun -np 2 resnet50_after_backward --way mpi --data synthetic:device --batch 4 --image-size 64 --threads 1
//
// `kolo scaling --peers mpi,loop,torchfort` starts it. The trainer's options follow --way; --shared-gradients and
// --overlap-update, which are about kolo, have no effect. With KOLO_STEP_LOG each rank writes a step log. The first
// step verifies the averages. kolo connects the ranks once, so that they get the trainer's images; its Context has
// ended before the first step. Without --steps the training has no end.
//
// mpi        All gradients in one buffer, and one MPI_Allreduce.
// loop       As cpp/distributed/dist-mnist.cpp of pytorch/examples (29464df): a loop over the parameters starts a
//            reduction of each gradient, and ProcessGroupMPI executes them one after another with MPI_Allreduce in
//            place. The example divides a gradient while its reduction may still run, so its result depends on timing.
//            Here the divisions follow the last reduction.
// torchfort  As NVIDIA/TorchFort (43a2845), train_multiarg() in src/csrc/training.cpp: after backward the gradients of
//            all parameters are passed to Comm::allreduce() in src/csrc/distributed.cpp. On CPUs it takes one tensor
//            after another: MPI_Allreduce in place, then `tensor /= size`. Tensors that are not contiguous are an
//            error. After the update, one more MPI_Allreduce averages the loss. Nothing overlaps with backward, and no
//            gradients are packed.
#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <mpi.h>
#include <torch/version.h>

#include <cstdio>
#include <iostream>
#include <memory>
#include <optional>
#include <string>

#include "average_gradients.h"
#include "data.h"
#include "kolo/context.h"
#include "kolo/error.h"
#include "model.h"
#include "options.h"
#include "peer_log.h"
#include "ranks.h"

namespace kolo::bench {
namespace {

using imagenet::Options;

struct Command {
  std::string way;
  Options options;
};

void refuse_unsupported(const Command& command) {
  const auto require = [&](bool condition, const std::string& text) {
    if (!condition) throw UsageError("--way " + command.way + ": " + text);
  };
  const Options& o = command.options;
  require(o.data_kind == imagenet::DataKind::synthetic_device, "--data must be synthetic:device, not " + o.data);
  require(o.device == imagenet::DeviceKind::cpu, "--device must be cpu");
  require(o.amp != imagenet::Amp::fp16, "--amp must be off or bf16");
  require(o.sync, "--sync must be on");
  require(!o.check, "--check is not supported");
  require(o.json.empty(), "--json is not supported; set KOLO_STEP_LOG");
  require(o.checkpoint_dir.empty() && o.resume.empty(), "--checkpoint-dir and --resume are not supported");
  require(command.way != "torchfort" || !o.channels_last,
          "TorchFort reduces contiguous gradients only. Pass --memory-format contiguous");
}

// Returns nothing if the user asks for help.
std::optional<Command> parse(int argc, char** argv) {
  if (argc < 3 || std::string(argv[1]) != "--way") {
    throw UsageError("the first option must be --way mpi, --way loop or --way torchfort; the trainer's options follow");
  }
  static_cast<void>(make_average(argv[2]));  // throws for an unknown way
  const auto options = imagenet::parse_options(argc - 2, argv + 2, std::cout);
  if (!options) return std::nullopt;
  Command command{argv[2], *options};
  refuse_unsupported(command);
  return command;
}

// Values that the training takes from the Context before the Context ends.
struct Setup {
  Placement placement;
  imagenet::Compute compute;
  imagenet::Batch batch;
  double steps_per_epoch = 0;
};

// Collective.
Setup prepare(const Options& options, Config config) {
  config.step_log.clear();
  config.timeline.clear();
  const auto context = Context::create(config);
  Setup setup;
  setup.placement = context->placement();
  setup.compute = imagenet::make_compute(*context, options);
  at::set_num_threads(options.threads > 0 ? options.threads : setup.placement.threads);
  const auto source = imagenet::make_source(*context, options, imagenet::Part::train, setup.compute.device, nullptr);
  source->begin(0, 0);
  if (!source->next(setup.batch)) throw Error("--data has no images");
  setup.steps_per_epoch = static_cast<double>(source->steps());
  context->shutdown();
  return setup;
}

class Training {
 public:
  Training(const Command& command, Setup setup, const std::string& step_log)
      : command_(command),
        setup_(std::move(setup)),
        log_(step_log, setup_.placement,
             {{"local_cores", std::to_string(setup_.placement.local_cores)},
              {"local_ranks", std::to_string(setup_.placement.local_size)},
              {"threads", std::to_string(at::get_num_threads())},
              {"libtorch", TORCH_VERSION}}),
        average_(make_average(command.way)),
        totals_(setup_.compute.device, 3) {
    const Options& options = command_.options;
    at::manual_seed(options.seed);
    model_ = std::make_shared<imagenet::ResNet>(options.arch, options.classes, options.zero_init_residual);
    if (options.channels_last) imagenet::use_channels_last(*model_);
    imagenet::use_onednn(*model_);
    optimizer_ = imagenet::make_optimizer(options, *model_);
    parameters_ = model_->parameters();
    // The last parameter gets its gradient first, and the first parameter gets it last.
    parameters_.back().register_hook([this](const at::Tensor&) { log_.first_gradient(); });
    parameters_.front().register_hook([this](const at::Tensor&) { log_.last_gradient(); });
  }

  void run() {
    const std::int64_t steps = command_.options.steps;
    double loss = 0;
    for (std::int64_t step = 0; steps == 0 || step < steps; ++step) loss = train_step(step);
    MPI_Allreduce(MPI_IN_PLACE, &loss, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    if (setup_.placement.rank > 0) return;
    std::printf("step %lld: loss %.6f\n", static_cast<long long>(steps), loss / setup_.placement.size);
  }

 private:
  // Returns the loss of this rank.
  double train_step(std::int64_t step) {
    const Options& options = command_.options;
    const double epoch = static_cast<double>(step) / setup_.steps_per_epoch;
    const int global_batch = options.batch * setup_.placement.size;
    imagenet::set_learning_rate(*optimizer_,
                                imagenet::learning_rate(options, global_batch, epoch, setup_.steps_per_epoch));
    const imagenet::Batch& batch = setup_.batch;
    const at::Tensor logits = imagenet::logits_of(setup_.compute, *model_, batch.images);
    const at::Tensor loss =
        at::cross_entropy_loss(logits, batch.labels, {}, at::Reduction::Mean, -100, options.label_smoothing);
    loss.backward();
    reduce(/*verify=*/step == 0);
    optimizer_->step();
    log_.updated(command_.way == "mpi" ? 1 : parameters_.size(), bytes_);
    optimizer_->zero_grad();
    if (command_.way == "torchfort") average_loss(loss.item<float>());
    const auto images = static_cast<double>(batch.labels.size(0));
    totals_.add(0, loss, images);
    totals_.add(1, logits.argmax(1).eq(batch.labels).sum());
    totals_.add(2, images);
    return loss.item<double>();
  }

  void reduce(bool verify) {
    std::vector<at::Tensor> gradients;
    bytes_ = 0;
    for (const at::Tensor& parameter : parameters_) {
      gradients.push_back(parameter.grad());
      bytes_ += gradients.back().nbytes();
    }
    std::optional<MeanCheck> check;
    if (verify) check.emplace(gradients);
    average_(gradients);
    if (check) check->verify(gradients);
    log_.reduced();
  }

  static void average_loss(float loss) { MPI_Allreduce(MPI_IN_PLACE, &loss, 1, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); }

  const Command& command_;
  Setup setup_;
  PeerLog log_;
  AverageGradients average_;
  imagenet::Totals totals_;
  std::shared_ptr<imagenet::ResNet> model_;
  std::shared_ptr<torch::optim::Optimizer> optimizer_;
  std::vector<at::Tensor> parameters_;
  std::uint64_t bytes_ = 0;  // of all gradients
};

void report(const std::exception& error) { std::fprintf(stderr, "resnet50_after_backward: %s\n", error.what()); }

}  // namespace
}  // namespace kolo::bench

int main(int argc, char** argv) {
  using namespace kolo::bench;
  imagenet::prepare_streams();
  std::optional<Command> command;
  try {
    command = parse(argc, argv);
  } catch (const kolo::UsageError& error) {
    report(error);
    return 2;
  }
  if (!command) return 0;
  imagenet::keep_freed_memory();
  int level = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level);  // the least that kolo needs
  try {
    const kolo::Config config = kolo::Config::from_environment();
    Training(*command, prepare(command->options, config), config.step_log).run();
  } catch (const std::exception& error) {
    report(error);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
  return 0;
}
