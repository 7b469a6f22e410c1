#include "torch/execution_environment.h"

#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <torch/version.h>

namespace kolo {
namespace {

using testing::Contains;
using testing::Pair;

TEST(ExecutionEnvironment, NamesThreadsCapabilityAndVersions) {
  at::set_num_threads(3);
  const ExecutionEnvironment found = execution_environment();
  at::set_num_threads(1);
  EXPECT_THAT(found, Contains(Pair("threads", "3")));
  EXPECT_THAT(found, Contains(Pair("libtorch", TORCH_VERSION)));
  for (const auto& [name, value] : found) {
    EXPECT_FALSE(value.empty()) << name;
    EXPECT_EQ((name + value).find_first_of("\n="), std::string::npos) << name << value;
  }
}

TEST(ExecutionEnvironment, DifferencesNameEachValueWithItsRanks) {
  const ExecutionEnvironment one{{"threads", "1"}, {"cpu", "AVX2"}}, two{{"threads", "2"}, {"cpu", "AVX2"}},
      other{{"threads", "1"}, {"cpu", "AVX512"}};
  EXPECT_EQ(differences_of({one, one}), "");
  EXPECT_EQ(differences_of({one, two}), "threads=1 on rank 0, threads=2 on rank 1");
  EXPECT_EQ(differences_of({two, one, other}),
            "threads=2 on rank 0, threads=1 on ranks 1, 2, cpu=AVX2 on ranks 0, 1, cpu=AVX512 on rank 2");
  std::vector<ExecutionEnvironment> many(12, one);
  many.push_back(two);
  EXPECT_EQ(differences_of(many), "threads=1 on ranks 0, 1, 2, 3, 4, 5, 6, 7 and 4 more, threads=2 on rank 12");
}

}  // namespace
}  // namespace kolo
