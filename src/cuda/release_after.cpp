#include "cuda/release_after.h"

#include <chrono>
#include <exception>
#include <thread>

#include "base/deadline.h"

namespace kolo::cuda {

bool comes_to_rest(const OwnStream& stream) noexcept {
  const base::Deadline deadline(std::chrono::seconds(2));
  try {
    while (!stream.idle()) {
      if (deadline.passed()) return false;
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  } catch (const std::exception&) {
  }
  return true;
}

}  // namespace kolo::cuda
