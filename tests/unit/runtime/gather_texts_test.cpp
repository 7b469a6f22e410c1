#include "kolo/context.h"

#include <gmock/gmock.h>

#include "kolo/error.h"
#include "support/thread_ranks.h"

namespace kolo {
namespace {

using testing::ElementsAre;

// The result of every rank, where rank r contributes `texts[r]`.
std::vector<std::vector<std::string>> gathered(const std::vector<std::string>& texts) {
  auto contexts = Context::create_local(std::vector<int>(texts.size(), 0));
  std::vector<std::vector<std::string>> results(texts.size());
  test::run_ranks(static_cast<int>(texts.size()), [&](int rank) {
    const auto r = static_cast<std::size_t>(rank);
    results[r] = gather_texts(*contexts[r], "test", texts[r]);
  });
  return results;
}

TEST(GatherTexts, DifferentPurposesAreMismatchErrorOnAllRanks) {
  auto contexts = Context::create_local(std::vector<int>(3, 0));
  test::run_ranks(3, [&](int rank) {
    Context& context = *contexts[static_cast<std::size_t>(rank)];
    try {
      static_cast<void>(gather_texts(context, rank == 1 ? "names" : "sizes", "text"));
      ADD_FAILURE() << "no error on rank " << rank;
    } catch (const MismatchError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("rank 0 in sizes, rank 1 in names"));
    }
    EXPECT_THAT(gather_texts(context, "names", "a"), ElementsAre("a", "a", "a"));
  });
}

TEST(GatherTexts, EveryRankGetsAllTextsInRankOrder) {
  const std::vector<std::string> texts{"zero", "", std::string(100'000, 'x'), std::string("a\0b", 3)};
  for (const auto& result : gathered(texts)) EXPECT_EQ(result, texts);
}

TEST(GatherTexts, EmptyTextsOfAllRanksAreGathered) { EXPECT_THAT(gathered({"", ""}).back(), ElementsAre("", "")); }

TEST(GatherTexts, OneRankGetsItsOwnText) { EXPECT_THAT(gathered({"alone"}).front(), ElementsAre("alone")); }

}  // namespace
}  // namespace kolo
