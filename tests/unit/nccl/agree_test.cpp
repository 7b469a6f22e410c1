#include "nccl/agree.h"

#include <gtest/gtest.h>

#include <functional>

#include "kolo/error.h"
#include "support/scoped_variable.h"
#include "support/thread_ranks.h"
#include "unit/nccl/nccl_end.h"

namespace kolo::nccl {
namespace {

RankFacts facts(int rank) {
  RankFacts facts;
  facts.host = "host" + std::to_string(rank / 2);
  facts.device = "0000:0" + std::to_string(rank % 2) + ":00.0";
  facts.version = 22809;
  facts.options = "max_ctas 0";
  return facts;
}

TEST(Agree, TextsSurvive) {
  RankFacts mine = facts(3);
  mine.trouble = "no\tdevice\nhere";
  mine.network = "InfiniBand, but";
  for (std::size_t i = 0; i < sizeof(mine.id.bytes); ++i) mine.id.bytes[i] = static_cast<char>(i * 37);
  const RankFacts same = decode(encode(mine));
  EXPECT_EQ(same.trouble, "no device here");
  EXPECT_EQ(same.host, "host1");
  EXPECT_EQ(same.device, mine.device);
  EXPECT_EQ(same.version, 22809);
  EXPECT_EQ(same.options, mine.options);
  EXPECT_EQ(same.network, mine.network);
  EXPECT_TRUE(std::equal(mine.id.bytes, mine.id.bytes + sizeof(mine.id.bytes), same.id.bytes));
}

TEST(Agree, OtherTextsAreRefused) {
  const std::string good = encode(facts(0));
  EXPECT_THROW((void)decode(""), BackendError);
  EXPECT_THROW((void)decode(good.substr(0, good.size() - 1)), BackendError);
  EXPECT_THROW((void)decode(good.substr(0, good.size() - 1) + "g"), BackendError);
  EXPECT_THROW((void)decode("a" + good + "\t"), BackendError);
  EXPECT_THROW((void)decode("\thost\tdevice\tx\t\t\t" + std::string(256, '0')), BackendError);
}

template <class E>
void expect_error(const std::vector<RankFacts>& ranks, const std::vector<std::string>& words) {
  try {
    check_agreement(ranks);
    ADD_FAILURE() << "no error; expected " << words[0];
  } catch (const E& error) {
    for (const std::string& word : words)
      EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
  }
}

TEST(Agree, NamesWhatDiffers) {
  const std::vector<RankFacts> good{facts(0), facts(1), facts(2), facts(3)};
  EXPECT_NO_THROW(check_agreement(good));
  auto ranks = good;
  ranks[2].version = 22105;
  expect_error<MismatchError>(ranks, {"rank 0 (host0) has 2.28.9", "rank 2 (host1) has 2.21.5"});
  ranks = good;
  ranks[1].trouble = "no CUDA device";
  ranks[3].trouble = "no NCCL";
  expect_error<UsageError>(ranks, {"rank 1 (host0): no CUDA device", "rank 3 (host1): no NCCL"});
  ranks = good;
  ranks[3].options = "max_ctas 4";
  expect_error<MismatchError>(ranks, {"rank 3 (host1) has max_ctas 4"});
}

// The same error on all ranks, from the parts of a communicator.
TEST(Agree, AllRanksThrowTheSame) {
  test::NcclRanks ranks(3);
  const auto same_on_all = [&](const std::function<void(NcclParts&)>& change, const std::string& word) {
    std::vector<std::string> texts(3);
    test::run_ranks(3, [&](int rank) {
      NcclParts parts = ranks.parts(rank);
      change(parts);
      try {
        (void)make_nccl(parts);
      } catch (const Error& error) {
        texts[static_cast<std::size_t>(rank)] = error.what();
      }
    });
    EXPECT_NE(texts[0].find(word), std::string::npos) << texts[0];
    EXPECT_EQ(texts[0], texts[1]);
    EXPECT_EQ(texts[0], texts[2]);
  };
  same_on_all([](NcclParts& parts) { parts.runtime = parts.rank == 2 ? nullptr : parts.runtime; }, "no CUDA device");
  same_on_all([](NcclParts& parts) { parts.library = parts.rank == 0 ? nullptr : parts.library; }, "no NCCL");
  same_on_all([](NcclParts& parts) { parts.max_ctas = parts.rank; }, "NCCL settings differ");
  same_on_all([](NcclParts& parts) { parts.registers_buffers = parts.rank == 0; }, "NCCL settings differ");
  {
    const test::ScopedVariable variable("NCCL_ALGO", "allreduce:ring");
    same_on_all(
        [](NcclParts& parts) {  // rank 1 says what a process with another value would
          if (parts.rank != 1) return;
          parts.exchange = [tell = parts.exchange](std::string mine) {
            const std::string_view ring = "allreduce:ring";
            return tell(mine.replace(mine.find(ring), ring.size(), "allreduce:tree"));
          };
        },
        "NCCL_ALGO allreduce:tree");
  }
  ranks.nccl.fail("unique_id", Result::system_error);
  same_on_all([](NcclParts&) {}, "ncclGetUniqueId: unhandled system error");
  EXPECT_EQ(ranks.nccl.calls("init"), 0);
}

}  // namespace
}  // namespace kolo::nccl
