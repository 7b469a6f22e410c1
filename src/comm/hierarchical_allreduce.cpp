// The allreduces of a hierarchical communicator: on a registered buffer in place; on private data through two small
// registered buffers in turns, chunk by chunk.
//
//   private [ chunk 0 | chunk 1 | chunk 2 | .. ]
//               |          |         |
//            stage 0    stage 1   stage 0         copied in, reduced over all hosts as a registered buffer, copied out;
//                                                 chunk 1 is copied in while chunk 0 is on its way
#include <array>
#include <cstring>
#include <optional>

#include "comm/hosted_allreduce.h"

namespace kolo::comm {
namespace {

using namespace collectives;

class RegisteredAllreduce final : public QueuedMachine {
 public:
  RegisteredAllreduce(const HierarchyPtr& hierarchy, const AllreduceOptions& options)
      : QueuedMachine(hierarchy->group(), hierarchy, hierarchy->turns()),
        work_(hierarchy, direct_buffer_of(options), options) {}
  [[nodiscard]] std::vector<Rank> waiting_for() const override { return work_.waiting_for(); }

 private:
  bool turn() override { return work_.advance(); }
  HostedAllreduce work_;
};

class PrivateAllreduce final : public QueuedMachine {
 public:
  PrivateAllreduce(const HierarchyPtr& hierarchy, const AllreduceOptions& options)
      : QueuedMachine(hierarchy->group(), hierarchy, hierarchy->turns()),
        hierarchy_(hierarchy),
        options_(options),
        element_(size_of(options.dtype)),
        chunk_(hierarchy->stages().front()->data().size() / element_),
        chunks_((options.count + chunk_ - 1) / chunk_) {
    if (chunks_ == 0 && !options.flags.words.empty()) chunks_ = 1;
  }

  [[nodiscard]] std::vector<Rank> waiting_for() const override {
    const auto& oldest = work_[complete_ % kStages];
    return oldest ? oldest->waiting_for() : std::vector<Rank>{};
  }

 private:
  static constexpr std::size_t kStages = 2;

  bool turn() override {
    while (complete_ < chunks_) {
      auto& oldest = work_[complete_ % kStages];
      if (!oldest) begin(complete_);
      const bool over = oldest->advance();
      if (!over || vetoed()) {
        if (over) return true;
        look_ahead(*oldest);
        return false;
      }
      copy_out(complete_);
      oldest.reset();
      ++complete_;
    }
    return true;
  }

  // The next chunk goes in when this one's messages have been started: all ranks start them in the same order. Flags
  // go with the first chunk, and whether there is a second is known only with them.
  void look_ahead(const HostedAllreduce& oldest) {
    const std::size_t next = complete_ + 1;
    if (next >= chunks_ || !oldest.launched() || (complete_ == 0 && !options_.flags.words.empty())) return;
    auto& work = work_[next % kStages];
    if (!work) begin(next);
    static_cast<void>(work->advance());
  }

  [[nodiscard]] bool vetoed() const { return complete_ == 0 && options_.flags.vetoed(); }

  [[nodiscard]] Range chunk(std::size_t index) const {
    const std::size_t begin = std::min(options_.count, index * chunk_);
    return {begin, std::min(options_.count, begin + chunk_)};
  }

  void begin(std::size_t index) {
    RegisteredBuffer& stage = *hierarchy_->stages()[index % kStages];
    const Range elements = chunk(index);
    AllreduceOptions options = options_;
    options.data = stage.data().data();
    options.count = elements.size();
    options.registered = &stage;
    if (index != 0) options.flags = {};
    if (options.count != 0)
      std::memcpy(options.data, options_.data + elements.begin * element_, options.count * element_);
    work_[index % kStages].emplace(hierarchy_, direct_buffer_of(options), options);
  }

  void copy_out(std::size_t index) {
    const Range elements = chunk(index);
    if (elements.size() == 0) return;
    std::memcpy(options_.data + elements.begin * element_, hierarchy_->stages()[index % kStages]->data().data(),
                elements.size() * element_);
  }

  HierarchyPtr hierarchy_;
  AllreduceOptions options_;
  std::size_t element_;
  std::size_t chunk_;  // elements
  std::size_t chunks_;
  std::size_t complete_ = 0;
  std::array<std::optional<HostedAllreduce>, kStages> work_;
};

}  // namespace

std::unique_ptr<Operation> start_hierarchical_allreduce(const HierarchyPtr& hierarchy,
                                                        const AllreduceOptions& options) {
  if (options.registered != nullptr) return std::make_unique<RegisteredAllreduce>(hierarchy, options);
  return std::make_unique<PrivateAllreduce>(hierarchy, options);
}

}  // namespace kolo::comm
