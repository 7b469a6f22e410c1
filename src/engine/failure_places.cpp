#include "engine/failure_places.h"

#include <algorithm>
#include <utility>

namespace kolo::engine {
namespace {

constexpr std::size_t kRemembered = 64;  // no peer is so far behind: it would have had to fail as often without hearing
constexpr std::uint64_t kNotBack = std::uint64_t{1} << 63;  // and above: failures of this rank that have no number yet

bool has(const FailurePlace& place, std::uint64_t number) { return std::ranges::count(place.numbers, number) > 0; }

bool as_far(const Fatal& one, const Fatal& other) { return one.calls == other.calls && one.reducers == other.reducers; }

}  // namespace

FailurePlace* FailurePlaces::place_of(const Fatal& failure) {
  const Rank rank = failure.ranks.front();
  const auto answered = std::ranges::find_if(places_, [&](const FailurePlace& place) {
    return !place.ranks.contains(rank) &&
           std::ranges::any_of(failure.answered, [&](std::uint64_t number) { return has(place, number); });
  });
  if (answered != places_.end()) return &*answered;
  const auto unheard_of = std::ranges::find_if(places_, [&](const FailurePlace& place) {
    return !place.ranks.contains(rank) && as_far(place.failure, failure) &&
           std::ranges::all_of(place.numbers, [&](std::uint64_t number) { return number > failure.heard; });
  });
  return unheard_of == places_.end() ? nullptr : &*unheard_of;
}

const FailurePlace* FailurePlaces::join(const Fatal& failure, std::uint64_t number) {
  FailurePlace* place = place_of(failure);
  if (place == nullptr) return nullptr;
  place->numbers.push_back(number);
  place->ranks.insert(failure.ranks.front());
  return place;
}

bool FailurePlaces::add(FailurePlace place) {
  const auto passed = std::ranges::find_if(places_, &FailurePlace::told);
  if (places_.size() >= kRemembered && passed != places_.end()) places_.erase(passed);
  place.over = place.told();
  place.ranks.insert(place.failure.ranks.front());
  const bool begun = !place.over && calls_.limit(place.failure.calls, place.numbers.front(), place.error);
  places_.push_back(std::move(place));
  return begun;
}

std::vector<std::uint64_t> FailurePlaces::fail(const Fatal& own) {
  const Rank rank = own.ranks.front();
  const std::uint64_t number = kNotBack + own_failures_++;
  const auto place = std::ranges::find_if(places_, [&](const FailurePlace& each) {
    return !each.told() && !each.ranks.contains(rank) && as_far(each.failure, own);
  });
  if (place == places_.end()) {
    add({.failure = own, .numbers = {number}, .over = true});
    return {};
  }
  auto answered = place->numbers;
  place->numbers.push_back(number);
  place->ranks.insert(rank);
  if (place->rounds == nullptr) end(*place);
  return answered;
}

void FailurePlaces::came_back(std::uint64_t number) {
  std::uint64_t* first = nullptr;
  for (FailurePlace& place : places_) {
    for (std::uint64_t& each : place.numbers) {
      if (each >= kNotBack && (first == nullptr || each < *first)) first = &each;
    }
  }
  if (first != nullptr) *first = number;
}

void FailurePlaces::end(FailurePlace& place) {
  place.over = true;
  calls_.lift(place.numbers.front());
}

template <class Told>
void FailurePlaces::end_all(Told told) {
  for (FailurePlace& place : places_) {
    if (!place.over && told(place)) end(place);
  }
}

void FailurePlaces::tell(std::uint64_t number) {
  end_all([&](const FailurePlace& place) { return place.rounds == nullptr && has(place, number); });
}

void FailurePlaces::tell_of_rounds() {
  end_all([](const FailurePlace& place) { return place.told(); });
}

void FailurePlaces::forget(const GradientRounds& rounds) {
  for (FailurePlace& place : places_) {
    if (place.rounds == &rounds) place.rounds = nullptr;
  }
}

const FailurePlace* FailurePlaces::find(std::uint64_t number) const {
  const auto found =
      std::ranges::find_if(places_, [&](const FailurePlace& place) { return !place.told() && has(place, number); });
  return found == places_.end() ? nullptr : &*found;
}

const FailurePlace* FailurePlaces::first() const {
  const auto found = std::ranges::find(places_, false, &FailurePlace::told);
  return found == places_.end() ? nullptr : &*found;
}

const FailurePlace* FailurePlaces::before(std::size_t reducer) const {
  const auto found = std::ranges::find_if(
      places_, [&](const FailurePlace& place) { return !place.told() && place.came_before(reducer); });
  return found == places_.end() ? nullptr : &*found;
}

}  // namespace kolo::engine
