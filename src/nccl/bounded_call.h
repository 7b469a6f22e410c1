#pragma once
#include <chrono>
#include <functional>

namespace kolo::nccl {

// Makes a call that may never return, in a thread of its own, and waits for it at most `limit`. False: it is still
// under way, and goes on with what it owns; REQUIRES: that is all it uses.
bool returns_within(std::chrono::milliseconds limit, std::function<void()> call) noexcept;

}  // namespace kolo::nccl
