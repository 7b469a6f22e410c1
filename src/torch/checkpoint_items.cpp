#include "torch/checkpoint_items.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/scalar_tensor.h>
#include <c10/core/GradMode.h>
#include <c10/util/Type.h>
#include <torch/serialize.h>

#include <map>
#include <set>
#include <sstream>
#include <typeinfo>
#include <utility>

#include "kolo/error.h"
#include "kolo/torch/distributed_optimizer.h"
#include "torch/dtype.h"
#include "torch/optimizer_fields.h"

namespace kolo {
namespace {

using checkpoint::TensorView;

std::string shape_text(c10::ScalarType type, at::IntArrayRef sizes) {
  std::ostringstream text;
  text << c10::toString(type) << " " << sizes;
  return text.str();
}

// A tensor over the bytes of the view.
at::Tensor tensor_of(const TensorView& saved) {
  void* const data = const_cast<std::byte*>(saved.bytes.data());  // only read
  return at::from_blob(data, saved.shape, at::TensorOptions().dtype(to_scalar_type(saved.dtype)));
}

void copy_saved(const TensorView& saved, const at::Tensor& target, const std::string& item) {
  const c10::NoGradGuard no_grad;
  const c10::ScalarType type = to_scalar_type(saved.dtype);
  if (target.scalar_type() != type || target.sizes() != at::IntArrayRef(saved.shape)) {
    throw UsageError("'" + item + "': tensor '" + saved.name + "' is " + shape_text(type, saved.shape) +
                     " in the checkpoint, " + shape_text(target.scalar_type(), target.sizes()) +
                     " in this program. Use a checkpoint of the same network");
  }
  target.detach().copy_(tensor_of(saved));
}

class ModelItem final : public CheckpointItem {
 public:
  ModelItem(std::string name, ListTensors parameters, ListTensors all)
      : CheckpointItem(std::move(name)), parameters_(std::move(parameters)), all_(std::move(all)) {}

  std::vector<ItemTensor> tensors() override {
    const std::size_t parameters = parameters_().size();
    std::vector<ItemTensor> found;
    std::set<std::string> names;
    std::size_t place = 0;
    for (const auto& [tensor_name, tensor] : all_()) {
      const bool is_buffer = place++ >= parameters;
      if (!tensor.defined()) continue;                    // a buffer that is not in use
      (void)to_dtype(tensor.scalar_type(), tensor_name);  // throws for a type that no file can hold
      if (tensor.layout() != c10::kStrided) throw UsageError("tensor '" + tensor_name + "' is sparse");
      if (!names.insert(tensor_name).second) throw UsageError("two tensors have the name '" + tensor_name + "'");
      found.push_back({tensor_name, tensor, is_buffer});
    }
    return found;
  }
  std::string archive() override { return {}; }

  void begin_load() override {
    missing_.clear();
    for (auto& each : tensors()) missing_.emplace(each.name, each.tensor);
  }
  void load_tensor(const TensorView& saved) override {
    const auto found = missing_.find(saved.name);
    if (found == missing_.end()) {
      throw UsageError("'" + name() + "' has no tensor '" + saved.name +
                       "', but the checkpoint has. Use a checkpoint of the same network");
    }
    copy_saved(saved, found->second, name());
    missing_.erase(found);
  }
  void load_archive(const std::string& /*bytes*/) override {}
  void end_load() override {
    if (missing_.empty()) return;
    throw UsageError("the checkpoint has no tensor '" + missing_.begin()->first + "' of '" + name() +
                     "'. Use a checkpoint of the same network");
  }

 private:
  ListTensors parameters_;
  ListTensors all_;
  std::map<std::string, at::Tensor> missing_;  // not loaded yet
};

using StateMap = std::decay_t<decltype(std::declval<torch::optim::Optimizer&>().state())>;

// While it exists, the optimizer has no state: its archive then holds the options only.
class WithoutState {
 public:
  explicit WithoutState(torch::optim::Optimizer& optimizer) : optimizer_(optimizer) { state_.swap(optimizer.state()); }
  ~WithoutState() { state_.swap(optimizer_.state()); }
  WithoutState(const WithoutState&) = delete;
  WithoutState& operator=(const WithoutState&) = delete;

 private:
  torch::optim::Optimizer& optimizer_;
  StateMap state_;
};

// State of a known kind is tensors "<field>.<parameter>", its options are the archive. Other optimizers are an archive.
class OptimizerItem final : public CheckpointItem {
 public:
  OptimizerItem(std::string name, torch::optim::Optimizer& optimizer, std::function<NamesOfParameters()> names)
      : CheckpointItem(std::move(name)), outer_(optimizer), names_(std::move(names)) {
    has_fields_ = with_state_type(inner(), [](const auto& /*state*/) {});
  }

  std::vector<ItemTensor> tensors() override {
    std::vector<ItemTensor> found;
    with_state_type(inner(), [&]<class State>(const State& /*kind*/) {
      for_each_parameter([&](const std::string& parameter, const at::Tensor& tensor) {
        const auto state = inner().state().find(tensor.unsafeGetTensorImpl());
        if (state == inner().state().end()) return;
        if (typeid(*state->second) != typeid(State)) {
          throw UsageError("'" + name() + "' keeps a state of its own, " +
                           c10::demangle(typeid(*state->second).name()) +
                           ". Add the optimizer as an object with save() and load()");
        }
        visit_fields(static_cast<State&>(*state->second), [&](const char* field, const auto& value) {
          const at::Tensor saved = to_tensor(value);
          if (saved.defined()) found.push_back({std::string(field) + "." + parameter, saved});
        });
      });
    });
    return found;
  }

  std::string archive() override {
    std::optional<WithoutState> without;
    if (has_fields_) without.emplace(inner());
    return archive_bytes([this](auto& archive) { outer_.save(archive); });
  }

  void begin_load() override { loaded_.clear(); }
  void load_tensor(const TensorView& saved) override {
    if (!has_fields_) return CheckpointItem::load_tensor(saved);
    if (loaded_.emplace(saved.name, tensor_of(saved).clone()).second) return;
    throw UsageError("the checkpoint has tensor '" + saved.name + "' of '" + name() + "' twice");
  }
  void load_archive(const std::string& bytes) override {
    inner().state().clear();
    c10::Device device = c10::kCPU;
    for_each_parameter([&](const std::string& /*name*/, const at::Tensor& tensor) { device = tensor.device(); });
    read_archive(bytes, device, [this](auto& archive) { outer_.load(archive); });
  }
  void end_load() override {
    with_state_type(inner(), [&]<class State>(const State& /*kind*/) {
      for_each_parameter([&](const std::string& parameter, const at::Tensor& tensor) {
        State state;
        bool any = false;
        visit_fields(state, [&](const char* field, auto& value) {
          any |= take(std::string(field) + "." + parameter, tensor, value);
        });
        if (any) inner().state()[tensor.unsafeGetTensorImpl()] = std::make_unique<State>(state);
      });
    });
    if (loaded_.empty()) return;
    throw UsageError("the optimizer '" + name() + "' has no parameter for '" + loaded_.begin()->first +
                     "' of the checkpoint. Use a checkpoint of the same network and optimizer");
  }

 private:
  // DistributedOptimizer::state() is not virtual.
  [[nodiscard]] torch::optim::Optimizer& inner() const {
    auto* const distributed = dynamic_cast<DistributedOptimizer*>(&outer_);
    return distributed == nullptr ? outer_ : distributed->optimizer();
  }

  // Each once, also if it is in two groups.
  template <class Use>
  void for_each_parameter(Use use) const {
    const NamesOfParameters names = names_();
    std::set<const c10::TensorImpl*> seen;
    const auto& groups = inner().param_groups();
    for (std::size_t group = 0; group < groups.size(); ++group) {
      const auto& parameters = groups[group].params();
      for (std::size_t i = 0; i < parameters.size(); ++i) {
        const c10::TensorImpl* const parameter = parameters[i].unsafeGetTensorImpl();
        if (!seen.insert(parameter).second) continue;
        const auto known = names.find(parameter);
        use(known != names.end() ? known->second : std::to_string(group) + "." + std::to_string(i), parameters[i]);
      }
    }
  }

  static at::Tensor to_tensor(const at::Tensor& field) { return field; }
  static at::Tensor to_tensor(std::int64_t field) { return at::scalar_tensor(field, c10::ScalarType::Long); }

  // Moves what was loaded under `name` into a field. False: there is nothing.
  bool take(const std::string& tensor_name, const at::Tensor& parameter, at::Tensor& field) {
    const auto found = loaded_.find(tensor_name);
    if (found == loaded_.end()) return false;
    if (found->second.sizes() != parameter.sizes()) {
      throw UsageError("'" + name() + "': tensor '" + tensor_name + "' is " +
                       shape_text(found->second.scalar_type(), found->second.sizes()) + ", its parameter " +
                       shape_text(parameter.scalar_type(), parameter.sizes()));
    }
    const c10::NoGradGuard no_grad;
    field = at::empty_like(parameter, parameter.options().dtype(found->second.scalar_type()));
    field.copy_(found->second);
    loaded_.erase(found);
    return true;
  }
  bool take(const std::string& tensor_name, const at::Tensor& /*parameter*/, std::int64_t& field) {
    const auto found = loaded_.find(tensor_name);
    if (found == loaded_.end()) return false;
    field = found->second.item<std::int64_t>();
    loaded_.erase(found);
    return true;
  }

  torch::optim::Optimizer& outer_;
  std::function<NamesOfParameters()> names_;
  bool has_fields_ = false;
  std::map<std::string, at::Tensor> loaded_;
};

class ArchiveItem final : public CheckpointItem {
 public:
  ArchiveItem(std::string name, std::function<void(torch::serialize::OutputArchive&)> save,
              std::function<void(torch::serialize::InputArchive&)> load)
      : CheckpointItem(std::move(name)), save_(std::move(save)), load_(std::move(load)) {}

  std::string archive() override { return archive_bytes(save_); }
  void load_archive(const std::string& bytes) override { read_archive(bytes, c10::kCPU, load_); }

 private:
  std::function<void(torch::serialize::OutputArchive&)> save_;
  std::function<void(torch::serialize::InputArchive&)> load_;
};

}  // namespace

std::string archive_bytes(const std::function<void(torch::serialize::OutputArchive&)>& save) {
  torch::serialize::OutputArchive archive;
  save(archive);
  std::ostringstream bytes;
  archive.save_to(bytes);
  return bytes.str();
}

void read_archive(const std::string& bytes, c10::Device device,
                  const std::function<void(torch::serialize::InputArchive&)>& load) {
  torch::serialize::InputArchive archive;
  archive.load_from(bytes.data(), bytes.size(), device);
  load(archive);
}

void CheckpointItem::load_tensor(const TensorView& saved) {
  throw UsageError("'" + name_ + "' has no tensors, but the checkpoint has '" + saved.name + "'");
}

std::unique_ptr<CheckpointItem> make_model_item(std::string name, ListTensors parameters, ListTensors all) {
  auto item = std::make_unique<ModelItem>(std::move(name), std::move(parameters), std::move(all));
  (void)item->tensors();  // throws now, not at the first checkpoint
  return item;
}

std::unique_ptr<CheckpointItem> make_optimizer_item(std::string name, torch::optim::Optimizer& optimizer,
                                                    std::function<NamesOfParameters()> names) {
  return std::make_unique<OptimizerItem>(std::move(name), optimizer, std::move(names));
}

std::unique_ptr<CheckpointItem> make_archive_item(std::string name,
                                                  std::function<void(torch::serialize::OutputArchive&)> save,
                                                  std::function<void(torch::serialize::InputArchive&)> load) {
  return std::make_unique<ArchiveItem>(std::move(name), std::move(save), std::move(load));
}

}  // namespace kolo
