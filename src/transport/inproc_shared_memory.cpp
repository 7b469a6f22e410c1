// Shared memory of ranks that are threads: plain memory whose addresses are exchanged.
#include <sys/mman.h>

#include <cerrno>

#include "base/system_error.h"
#include "cluster/inproc_gather.h"
#include "transport/make.h"

namespace kolo::transport {
namespace {

constexpr std::size_t kPage = 4096;

// One rank's memory. Zeroed and touched by its owner, so that no page fault is left for the steady state.
class Slot {
 public:
  explicit Slot(std::size_t bytes) : bytes_(bytes), mapped_((bytes + kPage - 1) / kPage * kPage) {
    if (mapped_ == 0) mapped_ = kPage;
    void* memory = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory == MAP_FAILED) {
      base::throw_errno("shared memory: cannot allocate " + std::to_string(bytes) + " bytes");
    }
    memory_ = static_cast<std::byte*>(memory);
  }
  Slot(const Slot&) = delete;
  Slot& operator=(const Slot&) = delete;
  ~Slot() { munmap(memory_, mapped_); }
  [[nodiscard]] std::span<std::byte> span() const noexcept { return {memory_, bytes_}; }

 private:
  std::size_t bytes_;
  std::size_t mapped_;
  std::byte* memory_ = nullptr;
};

using Gather = cluster::InprocGather<std::shared_ptr<Slot>>;

class InprocRegion final : public SharedRegion {
 public:
  explicit InprocRegion(std::shared_ptr<const Gather::Values> owners) : owners_(std::move(owners)) {
    for (const auto& owner : *owners_) slots_.push_back(owner->span());
  }
  [[nodiscard]] std::span<const std::span<std::byte>> slots() const noexcept override { return slots_; }

 private:
  std::shared_ptr<const Gather::Values> owners_;  // every rank's slot lives until the last rank's region is gone
  std::vector<std::span<std::byte>> slots_;
};

class InprocSharedMemory final : public SharedMemory {
 public:
  InprocSharedMemory(std::shared_ptr<Gather> gather, Rank rank, int size)
      : gather_(std::move(gather)), rank_(rank), size_(size) {}
  ~InprocSharedMemory() override { gather_->leave(rank_); }
  [[nodiscard]] int local_rank() const noexcept override { return rank_; }
  [[nodiscard]] int local_size() const noexcept override { return size_; }

  [[nodiscard]] std::unique_ptr<SharedRegion> allocate(std::size_t bytes, std::chrono::milliseconds timeout) override {
    const auto all = gather_->gather(rank_, std::make_shared<Slot>(bytes), timeout,
                                     "a collective, allocating shared memory", while_waiting());
    for (std::size_t r = 0; r < all->size(); ++r) {
      const std::size_t theirs = (*all)[r]->span().size();
      if (theirs != bytes) {
        throw UsageError("shared memory: rank " + std::to_string(rank_) + " asked for " + std::to_string(bytes) +
                         " bytes, rank " + std::to_string(r) + " for " + std::to_string(theirs));
      }
    }
    return std::make_unique<InprocRegion>(all);
  }

 private:
  std::shared_ptr<Gather> gather_;  // the hub; it lives as long as any rank
  Rank rank_;
  int size_;
};

}  // namespace

std::vector<std::unique_ptr<SharedMemory>> make_inproc_shared_memory(int ranks) {
  const auto gather = std::make_shared<Gather>(ranks);
  std::vector<std::unique_ptr<SharedMemory>> all;
  for (Rank rank = 0; rank < ranks; ++rank) all.push_back(std::make_unique<InprocSharedMemory>(gather, rank, ranks));
  return all;
}

}  // namespace kolo::transport
