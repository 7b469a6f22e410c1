#pragma once
// The table of a bucket's tensors in device memory, made once and kept between steps.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cuda/memory.h"
#include "cuda/stream.h"
#include "kernels/table_layout.h"
#include "kernels/table_view.h"

namespace kolo::kernels {

struct TableShape {
  std::size_t columns = 1;        // addresses of each tensor
  std::size_t element_bytes = 4;  // of the wider of the types that a kernel reads and writes
  std::size_t chunk_bytes = 0;    // 0: by the size of the bucket and of the device
};

// Memory: 8 bytes a tensor and column, 8 a tensor and 16 a chunk (of 8 to 64 KiB) on the device; as much pinned memory
// for the first copy and for a graph each; and 8 a tensor and column for each later copy that is still on its way.
//
// One thread at a time. All streams that it is used on are ordered by the caller, one use after the other; when it
// goes, the device is done with all of them, and so are graphs that captured it.
class TensorTable {
 public:
  TensorTable(cuda::RuntimePtr runtime, int device, std::span<const TensorPlace> places, const TableShape& shape = {});

  // The table with these addresses (column after column; null where there is no tensor), for a kernel that is enqueued
  // in `stream` next. Addresses that differ from last time's are copied to the device, in `stream`; the host does not
  // wait. Into a graph that is being captured a copy of them goes in any case, and from then on always, because each
  // replay writes its own again.
  // Throws UsageError for another number of addresses, another device, or a second capture with no run in between.
  [[nodiscard]] TableView with(std::span<void* const> addresses, Stream stream);

  [[nodiscard]] std::size_t tensors() const noexcept { return offsets_.size(); }
  [[nodiscard]] std::size_t columns() const noexcept { return columns_; }
  [[nodiscard]] unsigned blocks() const noexcept { return blocks_; }  // to launch; 0: there is no element at all
  [[nodiscard]] int device() const noexcept { return device_; }
  [[nodiscard]] std::size_t device_bytes() const noexcept { return memory_.size(); }
  [[nodiscard]] std::size_t pinned_bytes() const noexcept;

 private:
  // Addresses on their way. Written again only when the copy has passed.
  struct Staging {
    cuda::PinnedBuffer buffer;
    cuda::Event passed;
  };
  [[nodiscard]] Staging make_staging(std::size_t bytes) const;
  [[nodiscard]] Staging& free_staging(std::size_t bytes);
  [[nodiscard]] Staging& staging_of_graph();
  void upload(std::span<void* const> addresses, Stream stream);
  [[nodiscard]] std::size_t address_bytes() const noexcept { return columns_ * tensors() * sizeof(void*); }

  cuda::RuntimePtr runtime_;
  int device_;
  std::size_t columns_;
  std::vector<std::uint64_t> offsets_;
  unsigned blocks_;
  std::vector<Chunk> chunks_;
  cuda::DeviceBuffer memory_;  // chunks, offsets, addresses: all of them 8-byte aligned, the chunks 16
  std::vector<void*> last_;    // the addresses on the device; meaningless until uploaded_
  bool uploaded_ = false;
  bool captured_ = false;
  std::vector<Staging> staging_;
  std::vector<Staging> spare_;      // one for the next graph, or none
  std::vector<Staging> of_graphs_;  // read by every replay: never written again
};

}  // namespace kolo::kernels
