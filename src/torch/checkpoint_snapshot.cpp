#include "torch/checkpoint_snapshot.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <cstdio>
#include <set>
#include <sstream>

#include "kolo/spi/strides.h"
#include "torch/dtype.h"
#include "torch/fingerprint.h"
#include "torch/row_major.h"
#include "torch/torch_device.h"

namespace kolo {
namespace {

using checkpoint::TensorView;
using checkpoint::WrittenFile;

constexpr std::size_t kAlignment = 64;

std::size_t aligned(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// "model-00002-of-00008.safetensors", as Hugging Face's tools name them; "model.safetensors" for one file.
std::string file_name(const std::string& item, std::size_t number, std::size_t count) {
  if (count == 1) return item + ".safetensors";
  char numbers[40];
  std::snprintf(numbers, sizeof numbers, "-%05zu-of-%05zu", number + 1, count);
  return item + numbers + ".safetensors";
}

// The strides that a copy has in memory: those of the tensor if it has no gaps, else row-major.
std::vector<std::int64_t> strides_of_copy(const at::Tensor& tensor) {
  return tensor.is_non_overlapping_and_dense() ? tensor.strides().vec() : kolo::contiguous_strides(tensor.sizes());
}

bool is_row_major(const std::vector<std::int64_t>& sizes, const std::vector<std::int64_t>& strides) {
  return canonical_strides(sizes, strides) == canonical_strides(sizes, {});
}

std::uint64_t bytes_of(const ItemTensor& each) { return each.tensor.nbytes(); }

}  // namespace

std::vector<int> share_out(const std::vector<ItemTensor>& tensors, int ranks, std::uint64_t min_part_bytes) {
  std::uint64_t total = 0;
  for (const ItemTensor& each : tensors) total += bytes_of(each);
  const auto parts = std::clamp<std::uint64_t>(total / min_part_bytes, 1, static_cast<std::uint64_t>(ranks));
  std::uint64_t before = 0;  // bytes of rank 0's own tensors come first
  for (const ItemTensor& each : tensors) before += each.from_rank_0 ? bytes_of(each) : 0;
  std::vector<int> owners;
  for (const ItemTensor& each : tensors) {
    std::uint64_t part = 0;
    if (!each.from_rank_0) {
      const double middle = static_cast<double>(before) + static_cast<double>(bytes_of(each)) / 2;
      part =
          total == 0 ? 0 : static_cast<std::uint64_t>(middle / static_cast<double>(total) * static_cast<double>(parts));
      before += bytes_of(each);
    }
    owners.push_back(static_cast<int>(std::min(part, parts - 1) * static_cast<std::uint64_t>(ranks) / parts));
  }
  return owners;
}

std::byte* StagingBuffer::reserve(std::size_t bytes, bool pinned) {
  if (!memory_.defined() || memory_.nbytes() < bytes || pinned != pinned_) {
    memory_.reset();  // before the new one is allocated
    const auto options = at::TensorOptions().dtype(at::kByte).pinned_memory(pinned);
    memory_ = at::empty({static_cast<std::int64_t>(std::max(bytes, kAlignment))}, options);
    pinned_ = pinned;
  }
  return static_cast<std::byte*>(memory_.mutable_data_ptr());
}

CheckpointSnapshot::CheckpointSnapshot(const std::vector<std::unique_ptr<CheckpointItem>>& items, int rank, int ranks,
                                       StagingBuffer& staging) {
  std::ostringstream layout;
  for (const auto& item : items) add_item(*item, rank, ranks, layout);
  layout_ = fingerprint(layout.str());
  copy_all(staging);
}

void CheckpointSnapshot::add_item(CheckpointItem& item, int rank, int ranks, std::ostream& layout) {
  const std::vector<ItemTensor> tensors = item.tensors();
  const std::vector<int> owners = share_out(tensors, ranks);
  const std::set<int> writers(owners.begin(), owners.end());
  const auto file_of = [&](int owner) {
    const auto number = std::distance(writers.begin(), writers.find(owner));
    return file_name(item.name(), static_cast<std::size_t>(number), writers.size());
  };
  TensorFile mine;
  if (writers.contains(rank)) mine.name = file_of(rank);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto& [name, tensor, from_rank_0] = tensors[i];
    layout << item.name() << '\n' << name << '\n' << tensor.scalar_type() << tensor.sizes() << '\n';
    if (owners[i] != rank) continue;
    mine.tensors.push_back({{name, to_dtype(tensor.scalar_type(), name), tensor.sizes().vec(), {}},
                            strides_of_copy(tensor),
                            resolved(tensor.detach())});
  }
  if (!mine.tensors.empty()) tensor_files_.push_back(std::move(mine));
  if (rank != 0) return;
  if (writers.size() > 1) {
    Index& index = indexes_.emplace_back(Index{item.name() + ".safetensors.index.json", {}, 0});
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      index.files.emplace_back(tensors[i].name, file_of(owners[i]));
      index.bytes += bytes_of(tensors[i]);
    }
  }
  if (std::string archive = item.archive(); !archive.empty()) add_file(item.name() + ".pt", std::move(archive));
}

// Work of all streams of a GPU comes first: the program may have updated the weights in another one.
void CheckpointSnapshot::copy_all(StagingBuffer& staging) {
  const c10::NoGradGuard no_grad;
  std::size_t total = 0;
  std::set<c10::Device, decltype([](const auto& a, const auto& b) { return a.index() < b.index(); })> devices;
  for (const TensorFile& file : tensor_files_) {
    for (const Copy& copy : file.tensors) {
      total += aligned(copy.source.nbytes());
      bytes_ += copy.source.nbytes();
      if (!copy.source.is_cpu()) devices.insert(copy.source.device());
    }
  }
  for (const c10::Device& device : devices) {
    c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(device.index());
  }
  std::byte* next = staging.reserve(total, !devices.empty() && devices.begin()->is_cuda());
  for (TensorFile& file : tensor_files_) {
    for (Copy& copy : file.tensors) {
      const at::Tensor source = std::exchange(copy.source, {});
      const auto options = at::TensorOptions().dtype(source.scalar_type());
      at::from_blob(next, source.sizes(), copy.strides, options).copy_(source, /*non_blocking=*/true);
      copy.view.bytes = {next, source.nbytes()};
      next += aligned(source.nbytes());
    }
  }
  for (const c10::Device& device : devices) {
    c10::impl::VirtualGuardImpl(device.type()).synchronizeStream(current_stream(device));
  }
}

CheckpointSnapshot::Written CheckpointSnapshot::write(const std::filesystem::path& folder) {
  Written written;
  std::vector<std::byte> scratch;
  for (TensorFile& file : tensor_files_) {
    std::vector<TensorView> views;
    for (Copy& copy : file.tensors) {
      auto* const data = const_cast<std::byte*>(copy.view.bytes.data());  // in the staging buffer, which is ours
      if (!is_row_major(copy.view.shape, copy.strides)) {
        make_row_major({data, copy.view.bytes.size()}, size_of(copy.view.dtype), copy.view.shape, copy.strides,
                       scratch);
      }
      written.finite &= all_finite(copy.view.bytes, copy.view.dtype);
      views.push_back(std::move(copy.view));
    }
    written.files.push_back(checkpoint::write_safetensors(folder / file.name, views, {{"format", "pt"}}));
  }
  for (const auto& [name, content] : texts_) {
    written.files.push_back(checkpoint::write_file(folder / name, std::string_view(content)));
  }
  for (const Index& index : indexes_) {
    written.files.push_back(checkpoint::write_safetensors_index(folder / index.name, index.files, index.bytes));
  }
  return written;
}

}  // namespace kolo
