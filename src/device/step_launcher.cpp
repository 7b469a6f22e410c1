#include "device/step_launcher.h"

#include <algorithm>
#include <cstring>

#include "base/keep_for_good.h"
#include "kernels/adamw.h"
#include "kernels/find_nonfinite.h"
#include "kernels/sgd.h"
#include "kolo/error.h"

namespace kolo::device {
namespace {

// What the columns of a table are taken from, in their order; the kernels only read the first.
void* address_of(const StepTensor& tensor, std::size_t column) {
  switch (column) {
    case 0:
      return const_cast<void*>(tensor.gradient);
    case 1:
      return tensor.weight;
    case 2:
      return tensor.first;
    default:
      return tensor.second;
  }
}

}  // namespace

class DeviceStepLauncher::Reading final : public DeviceScalarFuture {
 public:
  Reading(DeviceStepLauncher& launcher, std::shared_ptr<ReadMemory> memory, Stream stream)
      : launcher_(launcher), memory_(std::move(memory)), stream_(stream) {}
  ~Reading() override {
    if (seen_) {
      launcher_.spare_.push_back(std::move(memory_));
    } else {
      launcher_.retire(std::move(memory_), stream_);
    }
  }
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;

  [[nodiscard]] std::optional<float> poll() override {
    if (!seen_ && !memory_->come.passed()) return std::nullopt;
    seen_ = true;
    float value = 0;
    std::memcpy(&value, memory_->host.data().data(), sizeof value);
    return value;
  }

 private:
  DeviceStepLauncher& launcher_;
  std::shared_ptr<ReadMemory> memory_;
  Stream stream_;
  bool seen_ = false;
};

DeviceStepLauncher::~DeviceStepLauncher() {
  for (auto& [key, table] : tables_) let_go(table);
}

void DeviceStepLauncher::let_go(Table& table) noexcept {
  if (table.table == nullptr) return;
  retire(std::move(table.table), table.user);
  table.table = nullptr;
  if (given_up_ != nullptr) retire(given_up_, table.user);  // its launches read that too
}

void DeviceStepLauncher::retire(std::shared_ptr<void> memory, Stream user) noexcept {
  if (lifetime_.is_over()) {  // nobody is left to ask whether the device has passed it
    base::keep_for_good(std::move(memory));
  } else {
    retire_(std::move(memory), user);
  }
}

void DeviceStepLauncher::fit(Table& table, const StepBatch& batch, std::size_t columns) {
  const auto has_count = [](std::size_t count, const StepTensor& tensor) { return count == tensor.count; };
  if (table.table != nullptr && table.table->columns() == columns &&
      std::equal(table.counts.begin(), table.counts.end(), batch.tensors.begin(), batch.tensors.end(), has_count)) {
    return;
  }
  let_go(table);
  std::vector<kernels::TensorPlace> places;
  table.counts.clear();
  for (const StepTensor& tensor : batch.tensors) {
    places.push_back({0, tensor.count});
    table.counts.push_back(tensor.count);
  }
  table.table = std::make_shared<kernels::TensorTable>(lane_.runtime(), lane_.device(), places,
                                                       kernels::TableShape{.columns = columns});
}

void DeviceStepLauncher::require_engine() const {
  if (lifetime_.is_over())
    throw UsageError(
        "step(): the Context of this optimizer was destroyed; keep the Context alive as long as the optimizer");
}

kernels::UpdateLaunch DeviceStepLauncher::prepare(const StepBatch& batch, std::size_t columns, Stream stream) {
  require_engine();
  Table& table = tables_[{batch.group, columns == 1}];
  fit(table, batch, columns);
  table.user = stream;
  table.addresses.clear();
  for (std::size_t column = 0; column < columns; ++column) {
    for (const StepTensor& tensor : batch.tensors) {
      // What is left out leaves no trace in the table, whatever becomes of its memory.
      table.addresses.push_back(tensor.gradient == nullptr ? nullptr : address_of(tensor, column));
    }
  }
  const kernels::Leave leave{batch.skip, given_up_ == nullptr ? nullptr : given_up_->address()};
  return {lane_.kernels(), *table.table, table.addresses, batch.gradient_scale, stream, leave};
}

void DeviceStepLauncher::launch(const StepBatch& batch, const SgdTerms& terms, Stream stream) {
  kernels::update_sgd(prepare(batch, terms.momentum != 0 ? 3 : 2, stream), terms);
}

void DeviceStepLauncher::launch(const StepBatch& batch, const AdamwTerms& terms, Stream stream) {
  kernels::update_adamw(prepare(batch, 4, stream), terms);
}

void DeviceStepLauncher::find_nonfinite(const StepBatch& batch, float* flag, Stream stream) {
  kernels::find_nonfinite(prepare(batch, 1, stream), flag);
}

std::unique_ptr<DeviceScalarFuture> DeviceStepLauncher::read(const float* value, Stream stream) {
  require_engine();
  const cuda::DeviceGuard guard(*lane_.runtime(), lane_.device());
  if (spare_.empty()) {
    spare_.reserve(++reads_made_);  // so that giving one back allocates nothing
    spare_.push_back(std::make_shared<ReadMemory>(lane_));
  }
  auto memory = std::move(spare_.back());
  spare_.pop_back();
  cuda::copy(*lane_.runtime(), memory->host.data().data(), value, sizeof(float), stream);
  memory->come.record(stream);
  return std::make_unique<Reading>(*this, std::move(memory), stream);
}

}  // namespace kolo::device
