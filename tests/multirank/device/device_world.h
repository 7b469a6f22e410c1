#pragma once
// A world of ranks that are threads, each with a simulated device of its own, and a program that trains on it:
// gradients are made by operations in streams, and read by operations in streams.
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cuda/memory.h"
#include "cuda/stream.h"
#include "kolo/kolo.h"
#include "multirank/engine/world.h"
#include "runtime/context_parts.h"
#include "support/device/kolo_kernels.h"
#include "support/device/simulated_library.h"

namespace kolo::test {

class DeviceWorld {
 public:
  struct Options {
    Hosts hosts;
    std::uint64_t seed = 1;
    Config config = quick();
    std::map<int, std::string> without_nccl{};  // ranks, and why
    // So many devices before the ranks' are nobody's. All threads begin with the first device, and run() leaves it so.
    int free_devices = 0;
    std::function<std::chrono::nanoseconds(const std::string& what)> takes{};  // of operations, in simulated time
  };
  using Mutate = std::function<cuda::RuntimeApi(const cuda::RuntimeApi&)>;
  explicit DeviceWorld(const Options& options, const Mutate& mutate = {})
      : free_devices_(options.free_devices),
        device_({.devices = free_devices_ + static_cast<int>(options.hosts.size()),
                 .seed = options.seed,
                 .takes = options.takes}),
        nccl_(device_, {.seed = options.seed}),
        runtime_(std::make_shared<const cuda::Runtime>(mutate ? mutate(device_.api()) : device_.api())) {
    add_kolo_kernels(device_);
    static const char image[] = "stands for device code";
    devices_ = {runtime_, std::make_shared<cuda::KernelImage>(runtime_, image),
                [this, without = options.without_nccl] { return find_nccl(without); }};
    contexts_ = runtime::make_local(options.hosts, options.config, [this] { return devices_; });
  }

  [[nodiscard]] SimulatedDevice& device() noexcept { return device_; }
  [[nodiscard]] SimulatedNccl& nccl() noexcept { return nccl_; }
  [[nodiscard]] const cuda::RuntimePtr& runtime() const noexcept { return runtime_; }
  [[nodiscard]] const runtime::Devices& devices() const noexcept { return devices_; }
  [[nodiscard]] int size() const noexcept { return static_cast<int>(contexts_.size()); }
  [[nodiscard]] int device_of(int rank) const noexcept { return free_devices_ + rank; }
  [[nodiscard]] CounterSnapshot counters(int rank) const {
    return contexts_[static_cast<std::size_t>(rank)]->counters();
  }

  // `body(context)` on every rank, whose current device is its own unless there are free ones. The contexts end with
  // it.
  template <class Body>
  void run(Body body) {
    run_ranks(size(), [&](int rank) {
      if (free_devices_ == 0) runtime_->api().set_device(rank);
      auto context = std::move(contexts_[static_cast<std::size_t>(rank)]);
      body(*context);
      context->shutdown();
    });
  }

 private:
  // In the thread of a rank, whose number its device has.
  nccl::LibraryPtr find_nccl(const std::map<int, std::string>& without) {
    int rank = 0;
    runtime_->api().get_device(&rank);
    if (const auto found = without.find(rank); found != without.end()) throw BackendError(found->second);
    return simulated_library(nccl_);
  }

  int free_devices_;
  SimulatedDevice device_;
  SimulatedNccl nccl_;
  cuda::RuntimePtr runtime_;
  runtime::Devices devices_;
  std::vector<std::unique_ptr<Context>> contexts_;
};

// How shares of gradients cross between hosts, in two steps: by NCCL, or in pieces through the hosts' memory.
enum class TwoSteps { nccl, staged };
inline DeviceWorld::Options in_two_steps(TwoSteps way, const Hosts& hosts, Config config = quick()) {
  config.device_reduction = way == TwoSteps::nccl ? DeviceReduction::hierarchical : DeviceReduction::mixed;
  return {.hosts = hosts, .config = std::move(config)};
}
inline constexpr TwoSteps kTwoSteps[] = {TwoSteps::nccl, TwoSteps::staged};

// One rank's model: a tensor of gradients for each count, made in `backward` and used in `user`.
class DeviceModel {
 public:
  DeviceModel(DeviceWorld& world, int rank, std::vector<std::int64_t> counts, bool side_stream)
      : world_(world),
        rank_(rank),
        device_(world.device_of(rank)),
        counts_(std::move(counts)),
        user_(world.runtime(), device_),
        side_(world.runtime(), device_),
        events_(world.runtime(), device_),
        backward_(side_stream ? side_.view() : user_.view()) {
    for (const auto count : counts_) {
      memory_.emplace_back(world.runtime(), device_, std::max<std::size_t>(bytes(count), 1));
    }
  }

  [[nodiscard]] std::vector<GradientInfo> table() const {
    std::vector<GradientInfo> rows;
    for (std::size_t i = 0; i < counts_.size(); ++i) {
      rows.push_back({"p" + std::to_string(i), {counts_[i]}, {1}, DType::f32, true});
    }
    return rows;
  }
  [[nodiscard]] ReducerOptions options() const {
    ReducerOptions options;
    options.device = device_;
    return options;
  }
  [[nodiscard]] Stream user() const { return user_.view(); }
  [[nodiscard]] Stream backward() const { return backward_; }
  [[nodiscard]] const void* data(std::size_t index) const { return memory_[index].data(); }

  // A backward pass begins behind the last update.
  void begin_backward() {
    if (backward_.handle != user_.view().handle) events_.order(backward_, user_.view());
  }
  void make(std::size_t index, float value) {
    void* const memory = memory_[index].data();
    const auto count = static_cast<std::size_t>(counts_[index]);
    Operation operation;
    operation.what = "gradient " + std::to_string(index) + " of rank " + std::to_string(rank_);
    operation.ranges = {{memory, bytes(counts_[index]), Access::write}};
    operation.run = [memory, count, value] { std::fill_n(static_cast<float*>(memory), count, value); };
    world_.device().enqueue(backward_.handle, std::move(operation));
  }
  // Reads a result in the user's stream; what it finds is in the returned vector once the device has run.
  std::shared_ptr<std::vector<float>> use(std::span<std::byte> gradient) {
    auto found = std::make_shared<std::vector<float>>(gradient.size() / sizeof(float));
    Operation operation;
    operation.what = "update of rank " + std::to_string(rank_);
    operation.ranges = {{gradient.data(), gradient.size(), Access::read}};
    operation.run = [found, gradient] {
      if (!gradient.empty()) std::memcpy(found->data(), gradient.data(), gradient.size());
    };
    world_.device().enqueue(user_.view().handle, std::move(operation));
    return found;
  }

 private:
  static std::size_t bytes(std::int64_t count) { return static_cast<std::size_t>(count) * sizeof(float); }

  DeviceWorld& world_;
  int rank_;
  int device_;
  std::vector<std::int64_t> counts_;
  cuda::OwnStream user_;
  cuda::OwnStream side_;
  cuda::EventPool events_;
  Stream backward_;
  std::vector<cuda::DeviceBuffer> memory_;
};

}  // namespace kolo::test
