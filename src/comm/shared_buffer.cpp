#include "comm/shared_buffer.h"

#include "base/cache_line.h"
#include "comm/validate.h"
#include "kolo/error.h"
#include "kolo/spi/communicator.h"

namespace kolo::comm {
namespace {

using collectives::DirectBuffer;
using collectives::DirectControl;

}  // namespace

// One region: | control 0 | buffer 0 | control 1 | buffer 1 | ... in every rank's slot.
std::vector<std::unique_ptr<RegisteredBuffer>> allocate_shared_buffers(transport::SharedMemory& memory,
                                                                       std::span<const std::size_t> sizes,
                                                                       std::chrono::milliseconds timeout) {
  std::vector<std::unique_ptr<RegisteredBuffer>> buffers;
  if (sizes.empty()) return buffers;
  validate_sizes(sizes);
  std::size_t total = 0;
  for (const std::size_t bytes : sizes) total += sizeof(DirectControl) + base::whole_lines(bytes);
  // Shared: the mapping lives until the last of its buffers, and of the operations on them, is gone.
  const std::shared_ptr<transport::SharedRegion> region = memory.allocate(total, timeout);
  std::size_t offset = 0;
  for (const std::size_t bytes : sizes) {
    auto buffer = std::make_shared<DirectBuffer>();
    buffer->region = region;
    buffer->bytes = bytes;
    for (const std::span<std::byte> slot : region->slots()) {
      buffer->control.push_back(reinterpret_cast<DirectControl*>(slot.data() + offset));
      buffer->memory.push_back(slot.data() + offset + sizeof(DirectControl));
    }
    buffer->columns.resize(buffer->memory.size());
    buffers.push_back(std::make_unique<SharedBuffer>(std::move(buffer), memory.local_rank()));
    offset += sizeof(DirectControl) + base::whole_lines(bytes);
  }
  return buffers;
}

const std::shared_ptr<DirectBuffer>& direct_buffer_of(const RegisteredBuffer* registered) {
  const auto* shared = dynamic_cast<const SharedBuffer*>(registered);
  if (shared == nullptr) throw UsageError("allreduce: the registered buffer belongs to another communicator");
  return shared->direct();
}

}  // namespace kolo::comm
