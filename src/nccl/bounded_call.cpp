#include "nccl/bounded_call.h"

#include <future>
#include <memory>
#include <thread>
#include <utility>

namespace kolo::nccl {

bool returns_within(std::chrono::milliseconds limit, std::function<void()> call) noexcept {
  try {
    auto task = std::make_shared<std::packaged_task<void()>>(std::move(call));
    const std::future<void> done = task->get_future();
    std::thread([task = std::move(task)] { (*task)(); }).detach();
    return done.wait_for(limit) == std::future_status::ready;
  } catch (const std::exception&) {  // no memory, or no thread: nothing has been called
    return false;
  }
}

}  // namespace kolo::nccl
