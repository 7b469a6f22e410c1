#include "engine/failure_places.h"

#include <gmock/gmock.h>

namespace kolo::engine {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Fatal failure(Rank rank, std::uint64_t heard, std::vector<std::uint64_t> answered = {}) {
  return {.kind = FatalKind::failed,
          .ranks = {rank},
          .text = "",
          .calls = 7,
          .answered = std::move(answered),
          .heard = heard};
}

class FailurePlacesTest : public testing::Test {
 protected:
  // A peer's, as the engine hears of it. True: the program here has gone on from there.
  bool hear(const Fatal& failed, std::uint64_t number) {
    if (const auto* place = places_.join(failed, number)) return place->told();
    places_.add({.failure = failed, .numbers = {number}});
    return false;
  }
  [[nodiscard]] std::uint64_t untold() const {
    return places_.first() == nullptr ? 0 : places_.first()->numbers.front();
  }

  base::CallLimit calls_;
  FailurePlaces places_{calls_};
};

TEST_F(FailurePlacesTest, APeersIsToldByAnErrorWithItsNumber) {
  EXPECT_FALSE(hear(failure(1, 0), 1));
  EXPECT_EQ(untold(), 1U);
  EXPECT_NE(places_.find(1), nullptr);
  places_.tell(2);
  EXPECT_EQ(untold(), 1U);
  places_.tell(1);
  EXPECT_EQ(untold(), 0U);
  EXPECT_EQ(places_.find(1), nullptr);
}

TEST_F(FailurePlacesTest, OfPeersThatHadNotHeardOfEachOtherAreOnePlace) {
  hear(failure(1, 0), 1);
  hear(failure(2, 0), 2);
  places_.tell(2);
  EXPECT_EQ(untold(), 0U);
  EXPECT_TRUE(hear(failure(3, 1, {1}), 3)) << "it had heard, and its program had not been told";
}

TEST_F(FailurePlacesTest, OfAPeerThatHasBeenToldIsAnotherPlace) {
  EXPECT_THAT(places_.fail(failure(0, 0)), IsEmpty());
  places_.came_back(1);
  EXPECT_FALSE(hear(failure(1, 1), 2));
  EXPECT_EQ(untold(), 2U);
}

TEST_F(FailurePlacesTest, OfAPeerThatFailsTwiceAreTwoPlaces) {
  EXPECT_THAT(places_.fail(failure(0, 0)), IsEmpty());
  EXPECT_TRUE(hear(failure(1, 0), 1));
  EXPECT_FALSE(hear(failure(1, 0), 2));
}

TEST_F(FailurePlacesTest, OnesOwnAnswersTheFirstThatTheProgramHasNotBeenToldOf) {
  hear(failure(1, 0), 1);
  hear(failure(1, 1), 2);
  EXPECT_THAT(places_.fail(failure(0, 2)), ElementsAre(1));
  EXPECT_EQ(untold(), 2U);
  EXPECT_THAT(places_.fail(failure(0, 2)), ElementsAre(2));
  EXPECT_EQ(untold(), 0U);
}

// This rank fails twice before a peer hears of either: the peer's failure belongs to the first, its next to the second.
TEST_F(FailurePlacesTest, APeerCatchesUpPlaceByPlace) {
  EXPECT_THAT(places_.fail(failure(0, 0)), IsEmpty());
  EXPECT_THAT(places_.fail(failure(0, 0)), IsEmpty());
  places_.came_back(1);
  places_.came_back(2);
  EXPECT_TRUE(hear(failure(1, 0), 3));
  EXPECT_TRUE(hear(failure(1, 2, {2}), 4));
  EXPECT_FALSE(hear(failure(1, 2), 5));
}

TEST_F(FailurePlacesTest, WhoHasMadeMoreCallsIsElsewhere) {
  hear(failure(1, 0), 1);
  auto own = failure(0, 1);
  own.calls = 8;
  EXPECT_THAT(places_.fail(own), IsEmpty());
  EXPECT_EQ(untold(), 1U);
}

TEST_F(FailurePlacesTest, LimitsCallsUntilTheProgramIsTold) {
  hear(failure(1, 0), 1);
  for (int call = 0; call < 7; ++call) calls_.begin();
  calls_.check_newest();
  places_.add({.failure = failure(2, 1), .numbers = {2}, .error = std::make_exception_ptr(std::runtime_error("two"))});
  places_.tell(1);
  EXPECT_THROW(calls_.check(7), std::runtime_error);
  places_.tell(2);
  calls_.check(7);
}

TEST_F(FailurePlacesTest, ForgetsTheOldestThatAreOver) {
  hear(failure(1, 0), 1);
  for (std::uint64_t number = 2; number < 500; ++number) {
    hear(failure(2, number - 1), number);
    places_.tell(number);
  }
  EXPECT_EQ(untold(), 1U);
}

}  // namespace
}  // namespace kolo::engine
