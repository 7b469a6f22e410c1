#include "torch/checkpoint_snapshot.h"

#include <gmock/gmock.h>
#include <torch/types.h>

#include <cmath>
#include <limits>

#include "kolo/checkpoint.h"
#include "support/temporary_folder.h"
#include "torch/row_major.h"

namespace kolo {
namespace {

using checkpoint::SafetensorsFile;
using testing::Each;
using testing::ElementsAre;
using testing::UnorderedElementsAre;

ItemTensor floats(std::int64_t count, bool from_rank_0 = false) { return {"t", torch::zeros({count}), from_rank_0}; }

TEST(ShareOut, SplitsBytesEvenlyInOrder) {
  EXPECT_THAT(share_out({floats(4), floats(4), floats(4), floats(4)}, 2, 1), ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(share_out({floats(12), floats(1), floats(1), floats(2)}, 2, 1), ElementsAre(0, 1, 1, 1));
}

TEST(ShareOut, SmallStateHasOneOwner) {
  EXPECT_THAT(share_out({floats(4), floats(4), floats(4)}, 8, kMinPartBytes), Each(0));
}

TEST(ShareOut, PartsAreSpreadOverTheRanks) { EXPECT_THAT(share_out({floats(4), floats(4)}, 8, 16), ElementsAre(0, 4)); }

TEST(ShareOut, TensorsOfRank0StayThere) {
  EXPECT_THAT(share_out({floats(4), floats(4), floats(8, true)}, 2, 1), ElementsAre(1, 1, 0));
}

TEST(ShareOut, TensorsWithoutElementsHaveAnOwner) {
  EXPECT_THAT(share_out({floats(0), floats(0)}, 3, 1), Each(0));
  EXPECT_TRUE(share_out({}, 3, 1).empty());
}

TEST(RowMajor, ReordersChannelsLast) {
  const at::Tensor tensor =
      torch::arange(2 * 3 * 4 * 5, torch::kFloat).view({2, 3, 4, 5}).contiguous(at::MemoryFormat::ChannelsLast);
  const auto* const data = static_cast<const std::byte*>(tensor.const_data_ptr());
  std::vector<std::byte> bytes(data, data + tensor.nbytes());
  std::vector<std::byte> scratch;
  make_row_major(bytes, 4, tensor.sizes().vec(), tensor.strides().vec(), scratch);
  const at::Tensor expected = tensor.contiguous();
  EXPECT_EQ(std::memcmp(bytes.data(), expected.const_data_ptr(), bytes.size()), 0);
}

TEST(AllFinite, FindsInfinityAndNanOfEachType) {
  for (const auto type : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16}) {
    const DType dtype = type == at::kFloat    ? DType::f32
                        : type == at::kDouble ? DType::f64
                        : type == at::kHalf   ? DType::f16
                                              : DType::bf16;
    for (const double value : {0.0, -1.5, 60000.0}) {
      const at::Tensor tensor = torch::full({5}, value, type);
      EXPECT_TRUE(all_finite({static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()}, dtype));
    }
    for (const double value : {double{INFINITY}, -double{INFINITY}, std::numeric_limits<double>::quiet_NaN()}) {
      at::Tensor tensor = torch::zeros({5}, type);
      tensor[3] = value;
      EXPECT_FALSE(all_finite({static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()}, dtype));
    }
  }
}

std::vector<std::unique_ptr<CheckpointItem>> item_with(const NamedTensors& parameters, const NamedTensors& buffers) {
  std::vector<std::unique_ptr<CheckpointItem>> items;
  NamedTensors all = parameters;
  all.insert(all.end(), buffers.begin(), buffers.end());
  items.push_back(make_model_item(
      "model", [parameters] { return parameters; }, [all] { return all; }));
  return items;
}

std::vector<std::string> names_in(const SafetensorsFile& file) {
  std::vector<std::string> names;
  for (const auto& tensor : file.tensors()) names.push_back(tensor.name);
  return names;
}

TEST(CheckpointSnapshot, OneRankWritesOneFile) {
  const test::TemporaryFolder folder;
  at::Tensor weight = torch::arange(6, torch::kFloat).view({2, 3});
  const auto items = item_with({{"weight", weight}}, {{"count", torch::full({}, 7, torch::kLong)}});
  StagingBuffer staging;
  CheckpointSnapshot snapshot(items, 0, 1, staging);
  weight.zero_();  // after the copy
  const auto written = snapshot.write(folder.path());
  EXPECT_TRUE(written.finite);
  ASSERT_EQ(written.files.size(), 1U);
  const SafetensorsFile file(folder.path() / "model.safetensors");
  EXPECT_THAT(names_in(file), UnorderedElementsAre("weight", "count"));
  const auto* const values = reinterpret_cast<const float*>(file.at("weight").bytes.data());
  EXPECT_THAT(std::vector<float>(values, values + 6), ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST(CheckpointSnapshot, RanksWriteDisjointPartsAndAnIndex) {
  constexpr std::int64_t kLarge = 5 << 20;  // 20 MiB
  const test::TemporaryFolder folder;
  const auto items =
      item_with({{"a", torch::ones({kLarge})}, {"b", torch::ones({kLarge})}}, {{"mean", torch::ones({3})}});
  std::vector<std::uint64_t> layouts;
  for (const int rank : {0, 1}) {
    StagingBuffer staging;
    CheckpointSnapshot snapshot(items, rank, 2, staging);
    layouts.push_back(snapshot.layout());
    (void)snapshot.write(folder.path());
  }
  EXPECT_EQ(layouts[0], layouts[1]);
  EXPECT_THAT(names_in(SafetensorsFile(folder.path() / "model-00001-of-00002.safetensors")),
              UnorderedElementsAre("a", "mean"));
  EXPECT_THAT(names_in(SafetensorsFile(folder.path() / "model-00002-of-00002.safetensors")), ElementsAre("b"));
  const auto index = checkpoint::read_file(folder.path() / "model.safetensors.index.json");
  const std::string text(reinterpret_cast<const char*>(index.data()), index.size());
  EXPECT_NE(text.find(R"("b": "model-00002-of-00002.safetensors")"), std::string::npos) << text;
  EXPECT_NE(text.find(R"("total_size": 41943052)"), std::string::npos) << text;
}

TEST(CheckpointSnapshot, ReportsNonFiniteTensor) {
  const test::TemporaryFolder folder;
  const auto items = item_with({{"weight", torch::full({4}, NAN)}}, {});
  StagingBuffer staging;
  EXPECT_FALSE(CheckpointSnapshot(items, 0, 1, staging).write(folder.path()).finite);
}

TEST(CheckpointSnapshot, LayoutDependsOnShapes) {
  StagingBuffer staging;
  const CheckpointSnapshot a(item_with({{"weight", torch::zeros({4})}}, {}), 0, 1, staging);
  const CheckpointSnapshot b(item_with({{"weight", torch::zeros({2, 2})}}, {}), 0, 1, staging);
  EXPECT_NE(a.layout(), b.layout());
}

}  // namespace
}  // namespace kolo
