#include "kolo/gather_texts.h"

#include <gmock/gmock.h>

#include "support/thread_ranks.h"

namespace kolo {
namespace {

using testing::ElementsAre;

// Every rank's result, where rank r gives `texts[r]`.
std::vector<std::vector<std::string>> gathered(const std::vector<std::string>& texts) {
  auto contexts = Context::create_local(std::vector<int>(texts.size(), 0));
  std::vector<std::vector<std::string>> results(texts.size());
  test::run_ranks(static_cast<int>(texts.size()), [&](int rank) {
    const auto r = static_cast<std::size_t>(rank);
    results[r] = gather_texts(*contexts[r], texts[r]);
  });
  return results;
}

TEST(GatherTexts, EveryRankHasAllInRankOrder) {
  const std::vector<std::string> texts{"zero", "", std::string(100'000, 'x'), std::string("a\0b", 3)};
  for (const auto& result : gathered(texts)) EXPECT_EQ(result, texts);
}

TEST(GatherTexts, WhereNobodySaysAnything) { EXPECT_THAT(gathered({"", ""}).back(), ElementsAre("", "")); }

TEST(GatherTexts, OfOneRank) { EXPECT_THAT(gathered({"alone"}).front(), ElementsAre("alone")); }

}  // namespace
}  // namespace kolo
