#include "engine/untold_failures.h"

#include <algorithm>
#include <utility>

namespace kolo::engine {

bool UntoldFailures::add(UntoldFailure failure) {
  const bool begun = calls_.limit(failure.failure.calls, failure.number, failure.error);
  failures_.push_back(std::move(failure));
  return begun;
}

template <class Told>
void UntoldFailures::lift(Told told) {
  std::erase_if(failures_, [&](const UntoldFailure& failure) {
    if (!told(failure)) return false;
    calls_.lift(failure.number);
    return true;
  });
}

void UntoldFailures::tell(std::uint64_t number) {
  lift([&](const auto& failure) { return failure.number == number && failure.rounds == nullptr; });
}

std::map<Rank, std::uint64_t> UntoldFailures::answer(std::uint64_t calls) {
  std::map<Rank, std::uint64_t> answered;
  lift([&](const auto& failure) {
    return failure.rounds == nullptr && failure.failure.calls == calls &&
           answered.emplace(failure.failure.ranks.front(), failure.number).second;
  });
  return answered;
}

void UntoldFailures::tell_of_rounds() {
  lift([](const auto& failure) { return failure.told(); });
}

void UntoldFailures::forget(const GradientRounds& rounds) {
  for (auto& failure : failures_) {
    if (failure.rounds == &rounds) failure.rounds = nullptr;
  }
}

const UntoldFailure* UntoldFailures::find(std::uint64_t number) const {
  const auto found = std::ranges::find(failures_, number, &UntoldFailure::number);
  return found == failures_.end() ? nullptr : &*found;
}

const UntoldFailure* UntoldFailures::first() const {
  const auto found = std::ranges::find(failures_, false, &UntoldFailure::told);
  return found == failures_.end() ? nullptr : &*found;
}

const UntoldFailure* UntoldFailures::before(std::size_t reducer) const {
  const auto found = std::ranges::find_if(failures_, [&](const auto& each) { return each.came_before(reducer); });
  return found == failures_.end() ? nullptr : &*found;
}

}  // namespace kolo::engine
