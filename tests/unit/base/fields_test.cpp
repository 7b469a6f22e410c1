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

}  // namespace
}  // namespace kolo::base
