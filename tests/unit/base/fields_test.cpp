#include "base/fields.h"

#include <gmock/gmock.h>

namespace kolo::base {
namespace {

using testing::ElementsAre;

TEST(Fields, SurviveALine) {
  EXPECT_THAT(split_fields(join_fields({"one", "", "three four", ""})), ElementsAre("one", "", "three four", ""));
  EXPECT_THAT(split_fields(join_fields({""})), ElementsAre(""));
}

TEST(Fields, AreOneLineWhateverTheyHold) {
  const std::string line = join_fields({"a\tb", "c\nd\r"});
  EXPECT_EQ(line.find('\n'), std::string::npos);
  EXPECT_THAT(split_fields(line), ElementsAre("a b", "c d "));
}

struct Facts {
  std::string host;
  std::string trouble;
};

TEST(Troubles, AreNamedByRankAndHost) {
  EXPECT_EQ(troubles_of(std::vector<Facts>{{"a", ""}, {"b", ""}}), "");
  EXPECT_EQ(troubles_of(std::vector<Facts>{{"a", "no driver"}, {"b", ""}, {"c", "no GPU"}}),
            "rank 0 (a): no driver; rank 2 (c): no GPU");
}

TEST(Troubles, OfManyTheFirstAreTold) {
  const std::string text = troubles_of(std::vector<Facts>(10000, {"a", "no driver"}));
  EXPECT_THAT(text, testing::EndsWith("rank 7 (a): no driver; and 9992 ranks more"));
}

}  // namespace
}  // namespace kolo::base
