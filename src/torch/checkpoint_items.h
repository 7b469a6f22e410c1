#pragma once
// What a Checkpointer saves: each added object as tensors, which ranks share out, and as an archive.
#include <ATen/core/Tensor.h>
#include <torch/optim/optimizer.h>
#include <torch/serialize/archive.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "kolo/checkpoint.h"
#include "kolo/torch/broadcast.h"

namespace kolo {

struct ItemTensor {
  std::string name;
  at::Tensor tensor;
  bool from_rank_0 = false;  // the ranks' values may differ: those of rank 0 count
};

// The archive as torch::save() writes it.
[[nodiscard]] std::string archive_bytes(const std::function<void(torch::serialize::OutputArchive&)>& save);
// Its tensors come to `device`, wherever they were saved.
void read_archive(const std::string& bytes, c10::Device device,
                  const std::function<void(torch::serialize::InputArchive&)>& load);

// One added object. Functions throw UsageError or what the object throws.
class CheckpointItem {
 public:
  explicit CheckpointItem(std::string name) : name_(std::move(name)) {}
  virtual ~CheckpointItem() = default;
  CheckpointItem(const CheckpointItem&) = delete;
  CheckpointItem& operator=(const CheckpointItem&) = delete;
  [[nodiscard]] const std::string& name() const noexcept { return name_; }

  // In the same order on all ranks.
  [[nodiscard]] virtual std::vector<ItemTensor> tensors() { return {}; }
  // What rank 0 saves besides; empty: nothing. Only rank 0 calls it.
  [[nodiscard]] virtual std::string archive() = 0;

  // In this order: tensors of the file, in any order; the archive; the end.
  virtual void begin_load() {}
  virtual void load_tensor(const checkpoint::TensorView& saved);
  virtual void load_archive(const std::string& bytes) = 0;
  // Throws if a tensor was missing.
  virtual void end_load() {}

 private:
  std::string name_;
};

// `parameters`: of the model as it is now; `all`: the same and then its buffers. Throws UsageError for tensors that no
// file can hold.
using ListTensors = std::function<NamedTensors()>;
[[nodiscard]] std::unique_ptr<CheckpointItem> make_model_item(std::string name, ListTensors parameters,
                                                              ListTensors all);
// Names of parameters, unique among all models.
using NamesOfParameters = std::unordered_map<const c10::TensorImpl*, std::string>;
[[nodiscard]] std::unique_ptr<CheckpointItem> make_optimizer_item(std::string name, torch::optim::Optimizer& optimizer,
                                                                  std::function<NamesOfParameters()> names);
[[nodiscard]] std::unique_ptr<CheckpointItem> make_archive_item(
    std::string name, std::function<void(torch::serialize::OutputArchive&)> save,
    std::function<void(torch::serialize::InputArchive&)> load);

}  // namespace kolo
