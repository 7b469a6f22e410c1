#pragma once
// Runs the items of the ready list: packs fused allreduces into one buffer, starts the collective, hands out the
// results.
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/messages.h"
#include "engine/slab_pool.h"
#include "engine/work_state.h"
#include "kolo/spi/communicator.h"
#include "telemetry/counters.h"

namespace kolo::engine {

// A request of this rank on its way.
struct Pending {
  Request request;
  std::shared_ptr<WorkState> work;  // shared with the caller's Work
};

struct ExecutorParts {
  std::unique_ptr<Communicator> communicator;
  telemetry::Counters* counters = nullptr;  // borrowed
  std::chrono::milliseconds timeout{};
  std::size_t idle_bytes = 0;                       // this rank's part of Config::idle_buffer_bytes
  std::function<void(const std::string&)> release;  // the name may be submitted again; called before its Work finishes
};

// Externally synchronized (the engine's progress lock). All ranks start the same items in the same order.
class NamedExecutor {
 public:
  explicit NamedExecutor(ExecutorParts parts)
      : parts_(std::move(parts)), pool_(*parts_.communicator, parts_.timeout, parts_.idle_bytes) {}

  // Whether start() would have to allocate, which waits for all ranks.
  [[nodiscard]] bool needs_memory(const std::vector<std::string>& names,
                                  const std::vector<const Request*>& requests) const;
  // Starts one item; `pending`, in the item's order of names, is taken over. Where that fails, the Works fail and the
  // error is thrown; but with a GroupFailure, which ends the group, `pending` is as it was.
  void start(const Item& item, std::vector<Pending>& pending);
  // True when something completed.
  bool advance();
  [[nodiscard]] std::size_t in_flight() const noexcept { return running_.size(); }
  [[nodiscard]] bool running(const std::string& name) const;
  // When the oldest operation in flight was started.
  [[nodiscard]] std::optional<std::chrono::steady_clock::time_point> oldest() const;
  [[nodiscard]] std::vector<Rank> waiting_for() const;
  // Fails what is in flight from `sequence` on. Its memory is kept until the end: peers may still write to it.
  void fail_from(std::uint64_t sequence, const std::exception_ptr& error);
  [[nodiscard]] Communicator& communicator() noexcept { return *parts_.communicator; }

 private:
  struct Running {
    std::vector<Pending> pending;
    std::shared_ptr<Slab> slab;                      // allreduce
    std::vector<std::size_t> offsets;                // allreduce: of each name in the slab
    std::shared_ptr<std::vector<std::byte>> memory;  // broadcast, allgather: shared with the result
    std::vector<std::byte> input;                    // allgather
    std::vector<std::size_t> counts;                 // allgather
    std::uint64_t sequence = 0;
    std::chrono::steady_clock::time_point since;
    std::unique_ptr<Operation> operation;  // goes before its memory, which it may still read then
  };
  // Where the results lie one after the other; returns the bytes of all.
  static std::size_t lay_out(const std::vector<const Request*>& requests, std::vector<std::size_t>& offsets);
  void start_operation(Running& running, const Item& item);
  void start_allreduce(Running& running);
  void start_broadcast(Running& running);
  void start_allgather(Running& running, const Item& item);
  void complete(Running& running);
  void complete_allreduce(Running& running);
  void finish(Pending& pending, std::span<const std::byte> result, std::shared_ptr<void> memory);

  ExecutorParts parts_;
  std::list<Running> running_;
  std::list<Running> abandoned_;
  SlabPool pool_;
  bool warm_ = false;  // the communicator has made what it needs for broadcasts and allgathers
};

}  // namespace kolo::engine
