#include "kernels/tensor_table.h"

#include <algorithm>
#include <cstring>

#include "kernels/launch_shape.h"
#include "kolo/error.h"

namespace kolo::kernels {
namespace {

std::vector<std::uint64_t> offsets_of(std::span<const TensorPlace> places) {
  std::vector<std::uint64_t> offsets;
  offsets.reserve(places.size());
  for (const TensorPlace& place : places) offsets.push_back(place.offset);
  return offsets;
}

std::size_t chunk_elements(std::span<const TensorPlace> places, const TableShape& shape, unsigned blocks) {
  std::size_t bytes = 0;
  for (const TensorPlace& place : places) bytes += place.count * shape.element_bytes;
  const std::size_t chunk = shape.chunk_bytes != 0 ? shape.chunk_bytes : chunk_bytes_for(bytes, blocks);
  return std::max<std::size_t>(chunk / shape.element_bytes, 1);
}

template <class T>
std::size_t bytes_of(const std::vector<T>& values) {
  return values.size() * sizeof(T);
}

template <class T>
std::byte* append(std::byte* to, std::span<const T> values) {
  if (!values.empty()) std::memcpy(to, values.data(), values.size_bytes());
  return to + values.size_bytes();
}

}  // namespace

TensorTable::TensorTable(cuda::RuntimePtr runtime, int device, std::span<const TensorPlace> places,
                         const TableShape& shape)
    : runtime_(std::move(runtime)),
      device_(device),
      columns_(shape.columns),
      offsets_(offsets_of(places)),
      blocks_(resident_blocks(*runtime_, device)),
      chunks_(cut_chunks(places, chunk_elements(places, shape, blocks_))),
      memory_(runtime_, device, std::max<std::size_t>(bytes_of(chunks_) + bytes_of(offsets_) + address_bytes(), 1)),
      last_(columns_ * places.size()) {
  blocks_ = static_cast<unsigned>(std::min<std::size_t>(blocks_, chunks_.size()));
  if (blocks_ != 0) spare_.push_back(make_staging(memory_.size()));
}

TableView TensorTable::with(std::span<void* const> addresses, Stream stream) {
  if (addresses.size() != last_.size()) {
    throw UsageError("tensor table: " + std::to_string(addresses.size()) + " addresses for " +
                     std::to_string(tensors()) + " tensors in " + std::to_string(columns_) + " columns");
  }
  if (stream.device != device_) {
    throw UsageError("tensor table: the table is on device " + std::to_string(device_) +
                     ", the stream belongs to device " + std::to_string(stream.device));
  }
  const bool known = uploaded_ && !captured_ && std::equal(addresses.begin(), addresses.end(), last_.begin());
  if (blocks_ != 0 && !(known && !cuda::is_captured(*runtime_, stream))) upload(addresses, stream);
  const std::byte* chunks = memory_.data();
  const std::byte* offsets = chunks + bytes_of(chunks_);
  const std::byte* table = offsets + bytes_of(offsets_);
  return {reinterpret_cast<std::byte* const*>(table), reinterpret_cast<const std::uint64_t*>(offsets),
          reinterpret_cast<const Chunk*>(chunks), static_cast<std::uint32_t>(tensors()),
          static_cast<std::uint32_t>(chunks_.size())};
}

// All of it until the device has it, which a captured copy does not tell; later the addresses alone, at the end.
void TensorTable::upload(std::span<void* const> addresses, Stream stream) {
  const cuda::DeviceGuard guard(*runtime_, device_);
  const bool in_graph = cuda::is_captured(*runtime_, stream);
  const bool whole = !uploaded_;
  const std::size_t fixed = bytes_of(chunks_) + bytes_of(offsets_);
  const std::size_t bytes = address_bytes() + (whole ? fixed : 0);
  Staging& staging = in_graph ? staging_of_graph() : free_staging(bytes);
  std::byte* to = staging.buffer.data().data();
  if (whole) to = append<std::uint64_t>(append<Chunk>(to, chunks_), offsets_);
  append(to, addresses);
  cuda::copy(*runtime_, memory_.data() + (whole ? 0 : fixed), staging.buffer.data().data(), bytes, stream);
  if (in_graph) {
    captured_ = true;
  } else {
    staging.passed.record(stream);
    uploaded_ = true;
  }
  std::copy(addresses.begin(), addresses.end(), last_.begin());
}

TensorTable::Staging TensorTable::make_staging(std::size_t bytes) const {
  return {cuda::PinnedBuffer(runtime_, device_, bytes), cuda::Event(runtime_, device_)};
}

TensorTable::Staging& TensorTable::free_staging(std::size_t bytes) {
  if (spare_.empty()) spare_.push_back(make_staging(memory_.size()));
  for (Staging& staging : staging_) {
    if (staging.buffer.data().size() < bytes) continue;
    if (!staging.passed.recorded() || staging.passed.passed()) return staging;
  }
  staging_.push_back(make_staging(bytes));
  return staging_.back();
}

// While a stream is being captured nothing may be allocated, and no event asked.
TensorTable::Staging& TensorTable::staging_of_graph() {
  if (spare_.empty()) {
    throw UsageError(
        "tensor table: second capture into a CUDA graph without an uncaptured step in between. Run one step, which "
        "allocates memory for the second graph");
  }
  of_graphs_.push_back(std::move(spare_.back()));
  spare_.pop_back();
  return of_graphs_.back();
}

std::size_t TensorTable::pinned_bytes() const noexcept {
  std::size_t bytes = 0;
  for (const auto* list : {&staging_, &spare_, &of_graphs_}) {
    for (const Staging& staging : *list) bytes += staging.buffer.data().size();
  }
  return bytes;
}

}  // namespace kolo::kernels
