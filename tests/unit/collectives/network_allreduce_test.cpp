// The allreduce algorithms over a Transport, each against exact results, for many numbers of ranks and sizes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "contract/contract_data.h"
#include "kolo/error.h"
#include "kolo/spi/communicator.h"
#include "support/sanitizers.h"
#include "unit/collectives/network_harness.h"

namespace kolo::collectives::test {
namespace {

using kolo::test::contribution;
using kolo::test::reduction;

using Start = std::unique_ptr<Operation> (*)(const NetworkParts&, const AllreduceOptions&);

struct Subject {
  const char* name;
  Start start;
};
constexpr Subject kSubjects[] = {{"ring", start_ring_allreduce},
                                 {"tree", start_tree_allreduce},
                                 {"halving_doubling", start_halving_doubling_allreduce},
                                 {"recursive_doubling", start_recursive_doubling<0>},
                                 {"recursive_doubling_1_halving", start_recursive_doubling<1>},
                                 {"recursive_doubling_3_halvings", start_recursive_doubling<3>}};
constexpr DType kTypes[] = {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i8,
                            DType::u8,  DType::i16, DType::i32, DType::i64,  DType::boolean};
constexpr ReduceOp kOps[] = {ReduceOp::sum, ReduceOp::average, ReduceOp::min, ReduceOp::max, ReduceOp::product};
constexpr std::size_t kLong = kolo::test::fewer_sanitized(std::size_t{300'007}, 130'007);
constexpr int kSizes[] = {2, 3, 4, 5, 6, 7, 8, 9, 16};

using Words = std::vector<std::vector<std::uint64_t>>;

// Every rank's data after an allreduce of `data`.
std::vector<std::vector<std::byte>> reduced_by(Start start, Network& network, std::vector<std::vector<std::byte>> data,
                                               AllreduceOptions options, Words* words = nullptr) {
  network.run([&](const NetworkParts& parts) {
    const auto rank = static_cast<std::size_t>(parts.group->rank());
    options.data = data[rank].data();
    options.count = data[rank].size() / size_of(options.dtype);
    if (words != nullptr) options.flags.words = (*words)[rank];
    return start(parts, options);
  });
  return data;
}

// Every rank's, and their sum.
std::vector<std::vector<std::byte>> random_floats(int size, std::size_t count, std::vector<double>& sum) {
  std::mt19937_64 random(static_cast<std::uint64_t>(size));
  std::uniform_real_distribution<float> spread(-1, 1);
  std::vector<std::vector<std::byte>> data(static_cast<std::size_t>(size), std::vector<std::byte>(4 * count));
  sum.assign(count, 0.0);
  for (auto& own : data) {
    for (std::size_t i = 0; i < count; ++i) {
      const float value = spread(random);
      sum[i] += value;
      std::memcpy(own.data() + 4 * i, &value, 4);
    }
  }
  return data;
}

class NetworkAllreduce : public testing::TestWithParam<Subject> {
 protected:
  static std::vector<std::vector<std::byte>> reduced(Network& network, std::vector<std::vector<std::byte>> data,
                                                     const AllreduceOptions& options, Words* words = nullptr) {
    return reduced_by(GetParam().start, network, std::move(data), options, words);
  }

  static std::vector<std::vector<std::byte>> contributions(int size, const AllreduceOptions& options,
                                                           std::size_t count) {
    std::vector<std::vector<std::byte>> all;
    for (Rank rank = 0; rank < size; ++rank) all.push_back(contribution(options.dtype, rank, count, options.op));
    return all;
  }

  void expect_exact(Network& network, DType dtype, ReduceOp op, std::size_t count) {
    AllreduceOptions options;
    options.dtype = dtype;
    options.op = op;
    const auto results = reduced(network, contributions(network.size(), options, count), options);
    const auto wanted = reduction(dtype, op, network.size(), 0, count);
    for (std::size_t rank = 0; rank < results.size(); ++rank) {
      ASSERT_TRUE(results[rank] == wanted)
          << name_of(dtype) << ' ' << name_of(op) << " of " << count << ", rank " << rank << " of " << network.size();
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Each, NetworkAllreduce, testing::ValuesIn(kSubjects),
                         [](const auto& suite) { return std::string(suite.param.name); });

TEST_P(NetworkAllreduce, EveryTypeAndOperation) {
  for (const int size : kSizes) {
    Network network(size);
    network.segment_bytes = 256;
    for (const DType dtype : kTypes) {
      if (dtype == DType::bf16 && size > 9) continue;  // partial sums of more ranks have too many digits
      for (const ReduceOp op : kOps) expect_exact(network, dtype, op, 1003);
    }
  }
}

TEST_P(NetworkAllreduce, EverySize) {
  for (const int size : kSizes) {
    Network network(size);
    network.segment_bytes = 128;
    const auto p = static_cast<std::size_t>(size);
    for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{2}, p - 1, p, p + 1, 16 * p - 1, 16 * p,
                                    16 * p + 1, std::size_t{31}, std::size_t{33}, std::size_t{9999}}) {
      expect_exact(network, DType::i32, ReduceOp::sum, count);
      expect_exact(network, DType::i8, ReduceOp::average, count);
    }
  }
}

// Segments of the default length, several a share, with a last one of odd length.
TEST_P(NetworkAllreduce, SeveralSegments) {
  for (const int size : {2, 3, 5, 8}) {
    Network network(size);
    expect_exact(network, DType::f32, ReduceOp::sum, kLong);
    expect_exact(network, DType::u8, ReduceOp::max, 3 * kLong);
  }
}

// Whatever is added in whatever order: all ranks have the same bits, and they are near the true sum.
TEST_P(NetworkAllreduce, EqualBitsEverywhere) {
  for (const int size : kSizes) {
    Network network(size);
    network.segment_bytes = 512;
    constexpr std::size_t kCount = 2'111;
    std::vector<double> sum;
    const auto results = reduced(network, random_floats(size, kCount, sum), {});
    for (const auto& result : results) ASSERT_TRUE(result == results[0]) << size << " ranks";
    for (std::size_t i = 0; i < kCount; ++i) {
      float value = 0;
      std::memcpy(&value, results[0].data() + 4 * i, 4);
      ASSERT_NEAR(value, sum[i], 1e-5) << i;
    }
  }
}

TEST(RecursiveDoubling, HasTheSameBitsHoweverOftenItHalves) {
  for (const int size : kSizes) {
    Network network(size);
    std::vector<double> sum;
    const auto data = random_floats(size, 2'111, sum);
    const auto whole = reduced_by(start_recursive_doubling<0>, network, data, {});
    EXPECT_TRUE(reduced_by(start_recursive_doubling<1>, network, data, {}) == whole) << size << " ranks";
    EXPECT_TRUE(reduced_by(start_recursive_doubling<3>, network, data, {}) == whole) << size << " ranks";
  }
}

// 0.5 and 4 are exact, also where an odd number of ranks leaves a block over.
TEST_P(NetworkAllreduce, ScalesEveryContributionOnce) {
  for (const int size : kSizes) {
    Network network(size);
    network.segment_bytes = 256;
    for (const DType dtype : {DType::f32, DType::f16}) {
      for (const std::size_t count : {std::size_t{1}, std::size_t{700}}) {
        AllreduceOptions options;
        options.dtype = dtype;
        options.op = ReduceOp::average;
        options.prescale = 0.5;
        options.postscale = 4;
        const auto results = reduced(network, contributions(size, options, count), options);
        std::vector<std::byte> wanted(count * size_of(dtype));
        for (std::size_t i = 0; i < count; ++i) {
          kolo::test::store(wanted.data() + i * size_of(dtype), dtype,
                            2 * kolo::test::expected_at(dtype, options.op, size, i));
        }
        for (const auto& result : results) ASSERT_TRUE(result == wanted) << size << " ranks, " << count;
      }
    }
  }
}

TEST_P(NetworkAllreduce, FlagsAndVeto) {
  for (const int size : kSizes) {
    Network network(size);
    network.segment_bytes = 256;
    for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{800}}) {
      for (Rank objector = -1; objector < size; ++objector) {
        AllreduceOptions options;
        options.prescale = 0.5;
        options.flags.veto = 4;
        std::vector<std::vector<std::uint64_t>> words;
        for (Rank rank = 0; rank < size; ++rank) {
          words.push_back({rank == objector ? 6U : 2U, std::uint64_t{1} << (rank + 40)});
        }
        const auto before = contributions(size, options, count);
        std::vector<std::byte> half(4 * count);
        for (std::size_t i = 0; i < count; ++i) {
          kolo::test::store(half.data() + 4 * i, DType::f32,
                            0.5 * kolo::test::expected_at(DType::f32, options.op, size, i));
        }
        const auto results = reduced(network, before, options, &words);
        const bool vetoed = objector >= 0;
        const std::uint64_t everybody = ((std::uint64_t{1} << size) - 1) << 40;
        for (std::size_t rank = 0; rank < results.size(); ++rank) {
          EXPECT_EQ(words[rank], (std::vector<std::uint64_t>{vetoed ? 6U : 2U, everybody}));
          EXPECT_TRUE(results[rank] == (vetoed ? before[rank] : half)) << "rank " << rank << " of " << size;
        }
      }
    }
  }
}

// A message that lost its second half is an error, not a wrong sum. In the flags, and in the data.
TEST_P(NetworkAllreduce, TruncatedMessagesAreNoticed) {
  for (const int size : {2, 3, 5}) {
    for (const bool flagged : {false, true}) {
      transport::Faults faults;
      faults.truncate = 1;
      Network network(size, faults);
      std::vector<std::vector<std::uint64_t>> words(static_cast<std::size_t>(size), std::vector<std::uint64_t>(3));
      EXPECT_THROW(reduced(network, contributions(size, {}, 5000), {}, flagged ? &words : nullptr), BackendError);
    }
  }
}

// Completions that are seen late, on one rank, in many interleavings.
TEST_P(NetworkAllreduce, AnyInterleaving) {
  for (const int size : {2, 3, 5, 8}) {
    for (std::uint64_t seed = 1; seed <= kolo::test::fewer_sanitized(40U, 8U); ++seed) {
      transport::Faults faults;
      faults.seed = seed;
      faults.max_delay_tests = 7;
      Network network(size, faults);
      network.segment_bytes = 1024;
      expect_exact(network, DType::i64, ReduceOp::sum, 4001);
    }
  }
}

TEST_P(NetworkAllreduce, NamesWhomItWaitsFor) {
  Network network(3);
  std::vector<std::uint64_t> words(1);
  std::vector<float> data(100);
  bool first = true;
  // Only the first rank of the three takes part.
  EXPECT_THROW(network.run([&](const NetworkParts& parts) -> std::unique_ptr<Operation> {
    AllreduceOptions options;
    options.data = reinterpret_cast<std::byte*>(data.data());
    options.count = data.size();
    if (!std::exchange(first, false)) throw UsageError("late");
    auto operation = GetParam().start(parts, options);
    for (int i = 0; i < 5; ++i) EXPECT_FALSE(operation->advance());
    EXPECT_FALSE(operation->waiting_for().empty());
    for (const Rank rank : operation->waiting_for()) EXPECT_TRUE(rank == 1 || rank == 2) << rank;
    return operation;
  }),
               UsageError);
}

}  // namespace
}  // namespace kolo::collectives::test
