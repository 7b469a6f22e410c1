#pragma once
// A request on its way through the engine, from submit() until it is executed.
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "engine/messages.h"
#include "engine/named_executor.h"

namespace kolo::engine {

// A question to other ranks, and who was asked.
struct Stall {
  std::uint64_t question = 0;  // 0: nobody was
  std::chrono::steady_clock::time_point since;
  std::vector<Rank> asked;
  std::vector<Rank> named;  // who is known to be waited for
};
// A request that has been submitted and not listed.
struct Submission {
  Pending pending;
  Entry entry;
  std::function<void(const Item&)> when_listed;  // a gradient round
  std::optional<std::size_t> table_of;           // all ranks compare the table of this reducer, before its first round
  bool on_device = false;                        // it makes buckets on devices
  std::chrono::steady_clock::time_point since;
  bool reported = false;  // to the parent: who is missing
  bool warned = false;    // to the log
  std::optional<Stall> stall;
  bool cancelled = false;  // the deadline has passed, the answer is on its way
};

// A submission's turn has come.
struct Listed {
  Item item;
  std::vector<Submission> submissions;  // in the item's order of names
};

}  // namespace kolo::engine
