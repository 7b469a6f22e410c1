#include "engine/unnamed_calls.h"

#include <charconv>
#include <string_view>
#include <utility>

#include "kolo/error.h"

namespace kolo::engine {
namespace {

constexpr std::string_view kPrefix = "kolo/unnamed/";

// Returns when the operation has ended, whatever its result.
void wait_for_end(WorkState& work) {
  try {
    work.wait();
  } catch (const Error&) {
    if (!work.finished()) throw;
  }
}

}  // namespace

void UnnamedCalls::require_one_thread() {
  const std::scoped_lock lock(mutex_);
  if (!thread_.has_value()) thread_ = std::this_thread::get_id();
  if (thread_ == std::this_thread::get_id()) return;
  throw UsageError(
      "an operation without a name was called from a second thread of this rank: ranks match such operations by the "
      "order of their calls. Give each operation a name, or call them all from one thread");
}

std::shared_ptr<WorkState> UnnamedCalls::submit(Request request, const Submit& submit) {
  require_one_thread();
  if (disabled_.load()) {
    throw UsageError(
        "an operation without a name was called after a failure: ranks may have made different numbers of calls. Give "
        "each operation a name");
  }
  std::weak_ptr<WorkState>& slot = works_[submitted_ % kInFlight];
  if (const auto oldest = slot.lock()) wait_for_end(*oldest);
  request.name = std::string(kPrefix) + std::to_string(submitted_ + 1);
  auto work = submit(std::move(request));
  slot = work;
  ++submitted_;
  return work;
}

std::string memory_name_of(const std::string& name) {
  if (!name.starts_with(kPrefix)) return name;
  std::uint64_t number = 0;
  std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), number);
  return std::string(kPrefix) + "memory " + std::to_string(number % UnnamedCalls::kInFlight);
}

}  // namespace kolo::engine
