#include "engine/message_check.h"

#include <gmock/gmock.h>

#include <functional>

#include "unit/engine/entries.h"

namespace kolo::engine {
namespace {

constexpr Tree kMiddle{1, 7};  // parent 0, children 3 and 4

Envelope from_child() {
  Envelope envelope;
  envelope.entries = {entry("a", 3)};
  envelope.reports = {{"b", {3}, true, false}};
  envelope.failure = Fatal{FatalKind::failed, {3}, "text", 0, {}};
  return envelope;
}

Envelope from_parent() {
  Envelope envelope;
  Item item;
  item.names = {"a"};
  item.bytes.assign(7, 4);
  item.conflict = Conflict{{}, 0, {}, 6};
  item.failed_ranks = {6};
  envelope.items = {item};
  envelope.withdrawal = Withdrawal{"b", {2}};
  return envelope;
}

TEST(MessageCheck, AcceptsWhatNeighboursSay) {
  check(from_child(), kMiddle, 3);
  check(from_parent(), kMiddle, 0);
}

void expect_refused(Envelope envelope, Rank from, const std::function<void(Envelope&)>& damage) {
  damage(envelope);
  EXPECT_THROW(check(envelope, kMiddle, from), DamagedMessage);
}

TEST(MessageCheck, RefusesWhatAChildDoesNotSay) {
  const auto good = from_child();
  expect_refused(good, 3, [](auto& e) { e.items.resize(1); });
  expect_refused(good, 3, [](auto& e) { e.withdrawal = Withdrawal{"a", {}}; });
  expect_refused(good, 3, [](auto& e) { e.entries[0].name.clear(); });
  expect_refused(good, 3, [](auto& e) { e.entries[0].rank = 7; });
  expect_refused(good, 3, [](auto& e) { e.entries[0].signature.sizes = {-1}; });
  expect_refused(good, 3, [](auto& e) { e.entries[0].ranks = {3}; });
  expect_refused(good, 3, [](auto& e) {
    e.entries[0].ranks = {-1};
    e.entries[0].bytes = {4};
  });
  expect_refused(good, 3, [](auto& e) { e.entries[0].failed_ranks = {7}; });
  expect_refused(good, 3, [](auto& e) { e.entries[0].conflict = Conflict{{}, 0, {}, 7}; });
  expect_refused(good, 3, [](auto& e) { e.reports[0].missing = {7}; });
  expect_refused(good, 3, [](auto& e) { e.reports[0].name.clear(); });
  expect_refused(good, 3, [](auto& e) { e.failure->ranks.clear(); });
}

TEST(MessageCheck, RefusesWhatAParentDoesNotSay) {
  const auto good = from_parent();
  expect_refused(good, 0, [](auto& e) { e.entries = {entry("a", 0)}; });
  expect_refused(good, 0, [](auto& e) { e.reports.resize(1); });
  expect_refused(good, 0, [](auto& e) { e.items[0].names.clear(); });
  expect_refused(good, 0, [](auto& e) { e.items[0].names = {"a", "a"}; });
  expect_refused(good, 0, [](auto& e) { e.items[0].bytes.resize(6); });
  expect_refused(good, 0, [](auto& e) { e.items[0].conflict->second_rank = 7; });
  expect_refused(good, 0, [](auto& e) { e.items[0].failed_ranks = {-1}; });
  expect_refused(good, 0, [](auto& e) { e.withdrawal->missing = {7}; });
}

TEST(MessageCheck, AnItemFitsWhatThisRankSubmitted) {
  const Signature allreduce = entry("a", 1).signature;
  Signature gather = allreduce;
  gather.kind = Kind::allgather;
  Signature other = allreduce;
  other.dtype = DType::f64;
  Item two;
  two.names = {"a", "b"};
  check(two, {&allreduce, &allreduce}, kMiddle);
  EXPECT_THROW(check(two, {&allreduce, &other}, kMiddle), DamagedMessage);
  two.failed_ranks = {1};
  EXPECT_THROW(check(two, {&allreduce, &allreduce}, kMiddle), DamagedMessage);

  Item one;
  one.names = {"a"};
  EXPECT_THROW(check(one, {&gather}, kMiddle), DamagedMessage);  // nothing says how much
  one.bytes = {1, 16, 1, 1, 1, 1, 1};
  check(one, {&gather}, kMiddle);
  EXPECT_THROW(check(one, {&allreduce}, kMiddle), DamagedMessage);
  one.bytes[1] = 17;  // this rank's memory has 16
  EXPECT_THROW(check(one, {&gather}, kMiddle), DamagedMessage);
  one.bytes = {~std::uint64_t{0}, 16, 1, 1, 1, 1, 1};
  EXPECT_THROW(check(one, {&gather}, kMiddle), DamagedMessage);
}

}  // namespace
}  // namespace kolo::engine
