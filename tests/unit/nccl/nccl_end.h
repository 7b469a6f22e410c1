#pragma once
// One rank's end, for tests: a communicator, a stream, and floats on the device.
#include <numeric>
#include <vector>

#include "cuda/memory.h"
#include "cuda/stream.h"
#include "support/device/nccl_ranks.h"

namespace kolo::test {

struct NcclEnd {
  NcclEnd(NcclRanks& the_ranks, const nccl::NcclParts& parts, std::size_t count)
      : ranks(the_ranks),
        stream(ranks.runtime, parts.device),
        memory(ranks.runtime, parts.device, count * sizeof(float)),
        communicator(nccl::make_nccl(parts)) {
    std::vector<float> values(count);
    std::iota(values.begin(), values.end(), static_cast<float>(parts.rank));
    fill(values);
  }
  // The memory goes when the device is done with it, as with what was aborted.
  ~NcclEnd() {
    communicator.reset();
    (void)ranks.device.api().stream_synchronize(stream.view().handle);
  }
  NcclEnd(const NcclEnd&) = delete;
  NcclEnd& operator=(const NcclEnd&) = delete;
  void fill(const std::vector<float>& values) {
    ranks.device.write(memory.data(), values.data(), values.size() * sizeof(float));
  }
  [[nodiscard]] AllreduceOptions options() const {
    AllreduceOptions options;
    options.data = memory.data();
    options.count = memory.size() / sizeof(float);
    options.stream = stream.view();
    return options;
  }
  [[nodiscard]] std::vector<float> values() const {
    std::vector<float> values(memory.size() / sizeof(float));
    ranks.device.peek(values.data(), memory.data(), memory.size());
    return values;
  }

  NcclRanks& ranks;
  cuda::OwnStream stream;
  cuda::DeviceBuffer memory;
  std::unique_ptr<Communicator> communicator;
};

}  // namespace kolo::test
