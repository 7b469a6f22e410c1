#include "contract/communicator_contract.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <string>

#include "contract/contract_data.h"
#include "contract/scattered_contract.h"
#include "kolo/error.h"
#include "kolo/spi/communicator.h"
#include "support/sanitizers.h"

namespace kolo::test {
namespace {

constexpr std::chrono::milliseconds kLimit{60000};
constexpr DType kTypes[] = {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i8,
                            DType::u8,  DType::i16, DType::i32, DType::i64,  DType::boolean};
constexpr ReduceOp kOps[] = {ReduceOp::sum, ReduceOp::average, ReduceOp::min, ReduceOp::max, ReduceOp::product};
constexpr std::size_t kCounts[] = {0, 1, 2, 7, 63, 64, 65, 1000, 5000, 16500, 65537};

// Long operations: not with every reduction, and with sanitizers not of every type.
bool tried(const Communicator& comm, DType dtype, ReduceOp op, std::size_t count) {
  const auto* some = dynamic_cast<const TakesSome*>(&comm);
  if (some != nullptr && !some->takes(dtype, op)) return false;
  if (count <= 1000) return true;
  if (kSanitized && dtype != DType::f32 && dtype != DType::i8) return false;
  return op == ReduceOp::sum || op == ReduceOp::average;
}

std::string label(const Communicator& comm, DType dtype, ReduceOp op, std::size_t count) {
  return "rank " + std::to_string(comm.rank()) + " of " + std::to_string(comm.size()) + ", " +
         std::string(name_of(dtype)) + " " + std::string(name_of(op)) + " of " + std::to_string(count);
}

void allreduce_all_types(Communicator& comm, Algorithm algorithm, RegisteredBuffer* registered) {
  for (const DType dtype : kTypes) {
    for (const ReduceOp op : kOps) {
      for (const std::size_t count : kCounts) {
        if (!tried(comm, dtype, op, count)) continue;
        std::vector<std::byte> data = contribution(dtype, comm.rank(), count, op);
        AllreduceOptions options;
        options.algorithm = algorithm;
        options.data = data.data();
        if (registered != nullptr) {
          options.data = registered->data().data();
          options.registered = registered;
          std::copy(data.begin(), data.end(), options.data);
        }
        options.count = count;
        options.dtype = dtype;
        options.op = op;
        comm.allreduce(options, kLimit);
        const std::vector<std::byte> wanted = reduction(dtype, op, comm.size(), 0, count);
        EXPECT_TRUE(std::equal(wanted.begin(), wanted.end(), options.data)) << label(comm, dtype, op, count);
      }
    }
  }
}

void allreduce_private(Communicator& comm, Algorithm algorithm) { allreduce_all_types(comm, algorithm, nullptr); }

void allreduce_registered(Communicator& comm, Algorithm algorithm) {
  const std::size_t sizes[] = {100, std::size_t{65537} * 8};
  auto buffers = comm.allocate(sizes, kLimit);
  ASSERT_EQ(buffers.size(), 2U);
  for (const auto& buffer : buffers) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer->data().data()) % 64, 0U);
    const auto data = buffer->data();
    EXPECT_TRUE(std::all_of(data.begin(), data.end(), [](std::byte b) { return b == std::byte{0}; }));
  }
  allreduce_all_types(comm, algorithm, buffers[1].get());
  comm.barrier(kLimit);
}

void parts_of_a_registered_buffer(Communicator& comm, Algorithm algorithm) {
  const std::size_t sizes[] = {400000};
  auto buffers = comm.allocate(sizes, kLimit);
  auto* floats = reinterpret_cast<float*>(buffers[0]->data().data());
  for (std::size_t i = 0; i < 100000; ++i) floats[i] = static_cast<float>(value_at(DType::f32, comm.rank(), i));
  AllreduceOptions options;
  options.algorithm = algorithm;
  options.registered = buffers[0].get();
  options.data = reinterpret_cast<std::byte*>(floats + 12345);
  options.count = 54321;
  comm.allreduce(options, kLimit);
  for (std::size_t i = 0; i < 100000; ++i) {
    const bool inside = i >= 12345 && i < 12345 + 54321;
    const double wanted =
        inside ? expected_at(DType::f32, ReduceOp::sum, comm.size(), i) : value_at(DType::f32, comm.rank(), i);
    ASSERT_EQ(floats[i], static_cast<float>(wanted)) << i;
  }
}

// Scaling before and after: 0.5 and 4 are exact.
void scales(Communicator& comm, Algorithm algorithm) {
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
    for (const std::size_t count : {std::size_t{5}, std::size_t{20000}}) {
      std::vector<std::byte> data = contribution(dtype, comm.rank(), count);
      AllreduceOptions options;
      options.algorithm = algorithm;
      options.data = data.data();
      options.count = count;
      options.dtype = dtype;
      options.op = ReduceOp::average;
      options.prescale = 0.5;
      options.postscale = 4;
      comm.allreduce(options, kLimit);
      const auto wanted = elements(
          dtype, count, [&](std::size_t i) { return 2 * expected_at(dtype, ReduceOp::average, comm.size(), i); });
      EXPECT_TRUE(data == wanted) << label(comm, dtype, options.op, count);
    }
  }
}

// Inexact data: the result is near the true sum and has the same bits on all ranks.
void equal_bits_everywhere(Communicator& comm, Algorithm algorithm) {
  for (const std::size_t count : {std::size_t{100}, std::size_t{70001}, fewer_sanitized(std::size_t{400003}, 140003)}) {
    std::vector<float> data(count);
    std::vector<double> sum(count, 0.0);
    for (Rank r = 0; r < comm.size(); ++r) {
      std::uint32_t random = static_cast<std::uint32_t>(r) * 7919U + static_cast<std::uint32_t>(count);
      for (std::size_t i = 0; i < count; ++i) {
        random = random * 1664525U + 1013904223U;
        const float value = static_cast<float>(static_cast<std::int32_t>(random)) * 0x1p-31F;
        sum[i] += value;
        if (r == comm.rank()) data[i] = value;
      }
    }
    AllreduceOptions options;
    options.algorithm = algorithm;
    options.data = reinterpret_cast<std::byte*>(data.data());
    options.count = count;
    comm.allreduce(options, kLimit);
    for (std::size_t i = 0; i < count; ++i) ASSERT_NEAR(data[i], sum[i], 1e-5) << i;
    const std::vector<std::size_t> counts(static_cast<std::size_t>(comm.size()), count * sizeof(float));
    std::vector<float> all(count * counts.size());
    AllgatherOptions gather{options.data, counts, reinterpret_cast<std::byte*>(all.data())};
    comm.allgather(gather, kLimit);
    for (std::size_t r = 0; r < counts.size(); ++r) {
      EXPECT_EQ(0, std::memcmp(all.data() + r * count, data.data(), count * sizeof(float))) << "rank " << r;
    }
  }
}

AllreduceOptions flagged(Algorithm algorithm, std::vector<std::byte>& data, std::vector<std::uint64_t>& words,
                         std::uint64_t veto) {
  AllreduceOptions options;
  options.algorithm = algorithm;
  options.data = data.data();
  options.count = data.size() / sizeof(float);
  options.flags = {words, veto};
  return options;
}

void flags_are_ored(Communicator& comm, Algorithm algorithm) {
  for (const std::size_t words_count : {std::size_t{1}, std::size_t{6}, std::size_t{7}, kMaxFlagWords}) {
    for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{3000}, std::size_t{100000}}) {
      std::vector<std::uint64_t> words(words_count);
      std::vector<std::uint64_t> wanted(words_count, 0);
      for (std::size_t w = 0; w < words_count; ++w) {
        words[w] = std::uint64_t{1} << (static_cast<std::size_t>(comm.rank()) + w % 32);
        for (int r = 0; r < comm.size(); ++r) wanted[w] |= std::uint64_t{1} << (static_cast<std::size_t>(r) + w % 32);
      }
      std::vector<std::byte> data = contribution(DType::f32, comm.rank(), count);
      comm.allreduce(flagged(algorithm, data, words, std::uint64_t{1} << 63), kLimit);
      EXPECT_EQ(words, wanted);
      EXPECT_TRUE(data == reduction(DType::f32, ReduceOp::sum, comm.size(), 0, count)) << count;
    }
  }
}

// Every rank in turn says no; the operation after it works.
void veto_leaves_data(Communicator& comm, Algorithm algorithm) {
  constexpr std::size_t kCount = fewer_sanitized(std::size_t{150000}, 70000);
  const std::size_t sizes[] = {kCount * sizeof(float)};
  auto buffers = comm.allocate(sizes, kLimit);
  for (int round = 0; round < 2 * comm.size(); ++round) {
    for (const std::size_t count : {std::size_t{3}, kCount}) {
      std::vector<std::byte> data = contribution(DType::f32, comm.rank(), count);
      std::vector<std::uint64_t> words = {comm.rank() == round % comm.size() ? 4U : 2U, 7U};
      AllreduceOptions options = flagged(algorithm, data, words, 4);
      options.prescale = 0.5;
      if (round >= comm.size()) {
        options.registered = buffers[0].get();
        options.data = std::copy(data.begin(), data.end(), buffers[0]->data().data()) - data.size();
      }
      const std::vector<std::byte> before = data;
      comm.allreduce(options, kLimit);
      EXPECT_NE(words[0] & 4, 0U);
      EXPECT_EQ(words[1], 7U);
      EXPECT_TRUE(std::equal(before.begin(), before.end(), options.data));
      words = {2, 7};
      options.prescale = 1;
      comm.allreduce(options, kLimit);
      const auto wanted = reduction(DType::f32, ReduceOp::sum, comm.size(), 0, count);
      EXPECT_TRUE(std::equal(wanted.begin(), wanted.end(), options.data)) << "round " << round << ", " << count;
      comm.barrier(kLimit);  // the registered buffer is written again
    }
  }
}

void broadcast_from_every_root(Communicator& comm, Algorithm /*algorithm*/) {
  for (Rank root = 0; root < comm.size(); ++root) {
    for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{1000}, std::size_t{600001}}) {
      const std::vector<std::byte> wanted = contribution(DType::u8, root, bytes);
      std::vector<std::byte> data = comm.rank() == root ? wanted : std::vector<std::byte>(bytes);
      comm.broadcast({data.data(), bytes, root}, kLimit);
      EXPECT_TRUE(data == wanted) << "root " << root << ", " << bytes << " bytes";
    }
  }
}

void allgather_uneven(Communicator& comm, Algorithm /*algorithm*/) {
  for (const std::size_t unit : {std::size_t{0}, std::size_t{1}, std::size_t{999}, std::size_t{150000}}) {
    std::vector<std::size_t> counts(static_cast<std::size_t>(comm.size()));
    for (std::size_t r = 0; r < counts.size(); ++r) counts[r] = unit * ((r + 1) % 3);  // some are empty
    std::vector<std::byte> wanted;
    for (std::size_t r = 0; r < counts.size(); ++r) {
      const auto part = contribution(DType::u8, static_cast<Rank>(r), counts[r]);
      wanted.insert(wanted.end(), part.begin(), part.end());
    }
    const auto self = static_cast<std::size_t>(comm.rank());
    const auto mine = contribution(DType::u8, comm.rank(), counts[self]);
    std::vector<std::byte> output(wanted.size());
    comm.allgather({mine.data(), counts, output.data()}, kLimit);
    EXPECT_TRUE(output == wanted) << "unit " << unit;
    // In place: the own part already lies where it belongs.
    std::vector<std::byte> again(wanted.size());
    const std::size_t before = std::accumulate(counts.begin(), counts.begin() + comm.rank(), std::size_t{0});
    std::copy(mine.begin(), mine.end(), again.begin() + static_cast<std::ptrdiff_t>(before));
    comm.allgather({again.data() + before, counts, again.data()}, kLimit);
    EXPECT_TRUE(again == wanted) << "in place, unit " << unit;
  }
}

void reduce_scatter_uneven(Communicator& comm, Algorithm /*algorithm*/) {
  for (const DType dtype : kTypes) {
    for (const ReduceOp op : kOps) {
      for (const std::size_t unit : {std::size_t{0}, std::size_t{1}, std::size_t{333}, std::size_t{20000}}) {
        if (!tried(comm, dtype, op, unit)) continue;
        std::vector<std::size_t> counts(static_cast<std::size_t>(comm.size()));
        for (std::size_t r = 0; r < counts.size(); ++r) counts[r] = unit * ((r + 1) % 3);
        const std::size_t total = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
        const std::size_t before = std::accumulate(counts.begin(), counts.begin() + comm.rank(), std::size_t{0});
        const std::size_t own = counts[static_cast<std::size_t>(comm.rank())];
        const std::vector<std::byte> input = contribution(dtype, comm.rank(), total, op);
        const std::vector<std::byte> copy = input;
        std::vector<std::byte> output(own * size_of(dtype));
        comm.reduce_scatter({input.data(), counts, output.data(), dtype, op}, kLimit);
        EXPECT_TRUE(output == reduction(dtype, op, comm.size(), before, own)) << label(comm, dtype, op, unit);
        EXPECT_EQ(input, copy);
      }
    }
  }
}

// Many in a row complete on every rank.
void barriers_in_a_row(Communicator& comm, Algorithm /*algorithm*/) {
  for (int i = 0; i < 200; ++i) comm.barrier(kLimit);
}

// Started in one order on all ranks, waited for in another order on each.
void any_order_of_completion(Communicator& comm, Algorithm algorithm) {
  constexpr std::size_t kOperations = 6;
  const std::vector<std::size_t> sizes(2, 40000 * sizeof(float));
  auto buffers = comm.allocate(sizes, kLimit);
  std::vector<std::vector<std::byte>> data;
  std::vector<std::unique_ptr<Operation>> operations;
  std::vector<AllreduceOptions> options(kOperations);
  for (std::size_t k = 0; k < kOperations; ++k) {
    data.push_back(contribution(DType::f32, comm.rank(), k == 1 ? 10 : 40000));
    options[k].algorithm = algorithm;
    options[k].data = data[k].data();
    options[k].count = data[k].size() / sizeof(float);
    if (k == 0 || k == 5) {
      options[k].registered = buffers[k % 2].get();
      options[k].data =
          std::copy(data[k].begin(), data[k].end(), options[k].registered->data().data()) - data[k].size();
    }
  }
  for (const AllreduceOptions& each : options) operations.push_back(comm.start(each));
  std::vector<std::size_t> order(kOperations);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::mt19937 random(static_cast<unsigned>(comm.rank()) + 1);
  std::shuffle(order.begin(), order.end(), random);
  for (const std::size_t k : order) {
    comm.drive(*operations[k], kLimit, "operation " + std::to_string(k));
    const auto wanted = reduction(DType::f32, ReduceOp::sum, comm.size(), 0, options[k].count);
    EXPECT_TRUE(std::equal(wanted.begin(), wanted.end(), options[k].data)) << k;
  }
}

// Several operations on parts of one registered buffer.
void several_on_one_buffer(Communicator& comm, Algorithm algorithm) {
  const std::size_t sizes[] = {12 * 4096 * sizeof(float)};
  auto buffers = comm.allocate(sizes, kLimit);
  for (int round = 0; round < 20; ++round) {
    std::vector<std::unique_ptr<Operation>> operations;
    for (std::size_t k = 0; k < 12; ++k) {
      AllreduceOptions options;
      options.algorithm = algorithm;
      options.registered = buffers[0].get();
      options.data = buffers[0]->data().data() + k * 4096 * sizeof(float);
      options.count = 4096;
      const auto mine = contribution(DType::f32, comm.rank(), options.count);
      std::copy(mine.begin(), mine.end(), options.data);
      operations.push_back(comm.start(options));
    }
    for (std::size_t k = 12; k-- > 0;) comm.drive(*operations[k], kLimit, "part");
    const auto wanted = reduction(DType::f32, ReduceOp::sum, comm.size(), 0, 4096);
    for (std::size_t k = 0; k < 12; ++k) {
      const auto part = buffers[0]->data().subspan(k * wanted.size(), wanted.size());
      ASSERT_TRUE(std::equal(wanted.begin(), wanted.end(), part.begin())) << k;
    }
    comm.barrier(kLimit);
  }
}

template <class Options>
void expect_refused(Communicator& comm, const Options& options) {
  EXPECT_THROW((void)comm.start(options), UsageError);
}

void misuse_is_refused(Communicator& comm, Algorithm /*algorithm*/) {
  std::vector<float> data(16);
  auto* bytes = reinterpret_cast<std::byte*>(data.data());
  AllreduceOptions options;
  options.count = 4;
  expect_refused(comm, options);  // null
  options.data = bytes;
  options.count = ~std::size_t{0} / 2;
  expect_refused(comm, options);  // overflow
  options.count = 4;
  options.data = bytes + 1;
  expect_refused(comm, options);  // alignment
  options.data = bytes;
  options.dtype = DType::i32;
  options.prescale = 0.5;
  expect_refused(comm, options);  // integers cannot be scaled
  options.dtype = DType::f32;
  options.prescale = std::numeric_limits<double>::infinity();
  expect_refused(comm, options);
  options.prescale = 1;
  std::vector<std::uint64_t> words(kMaxFlagWords + 1);
  options.flags.words = words;
  expect_refused(comm, options);
  expect_refused(comm, BroadcastOptions{bytes, 4, comm.size()});
  expect_refused(comm, BroadcastOptions{bytes, 4, -1});
  expect_refused(comm, BroadcastOptions{nullptr, 4, 0});
  const std::vector<std::size_t> counts(static_cast<std::size_t>(comm.size()) + 1, 4);
  expect_refused(comm, AllgatherOptions{bytes, counts, bytes});
  expect_refused(comm, ReduceScatterOptions{bytes, counts, bytes});
  comm.barrier(kLimit);  // and everything still works
}

void registered_memory_is_checked(Communicator& comm, Algorithm /*algorithm*/) {
  const std::size_t sizes[] = {256};
  auto buffers = comm.allocate(sizes, kLimit);
  std::vector<float> elsewhere(64);
  AllreduceOptions options;
  options.registered = buffers[0].get();
  options.data = reinterpret_cast<std::byte*>(elsewhere.data());
  options.count = 64;
  expect_refused(comm, options);
  options.data = buffers[0]->data().data() + 64;
  expect_refused(comm, options);  // reaches over the end
  comm.barrier(kLimit);
}

void choice_has_a_reason(Communicator& comm, Algorithm /*algorithm*/) {
  AllreduceOptions options;
  options.count = 1000;
  EXPECT_FALSE(comm.explain(options).reason.empty());
}

constexpr ContractCase kCases[] = {
    {"barriers_in_a_row", barriers_in_a_row, false},
    {"allreduce_private", allreduce_private, true},
    {"allreduce_registered", allreduce_registered, true},
    {"parts_of_a_registered_buffer", parts_of_a_registered_buffer, true},
    {"scales", scales, true},
    {"equal_bits_everywhere", equal_bits_everywhere, true},
    {"flags_are_ored", flags_are_ored, true},
    {"veto_leaves_data", veto_leaves_data, true},
    {"scattered_all_types", scattered_all_types, false},
    {"scattered_anew_each_time", scattered_anew_each_time, false},
    {"scattered_veto_leaves_data", scattered_veto_leaves_data, false},
    {"scattered_misuse_is_refused", scattered_misuse_is_refused, false},
    {"broadcast_from_every_root", broadcast_from_every_root, false},
    {"allgather_uneven", allgather_uneven, false},
    {"reduce_scatter_uneven", reduce_scatter_uneven, false},
    {"any_order_of_completion", any_order_of_completion, true},
    {"several_on_one_buffer", several_on_one_buffer, true},
    {"misuse_is_refused", misuse_is_refused, false},
    {"registered_memory_is_checked", registered_memory_is_checked, false},
    {"choice_has_a_reason", choice_has_a_reason, false},
};

}  // namespace

std::span<const ContractCase> communicator_contract() { return kCases; }

}  // namespace kolo::test
