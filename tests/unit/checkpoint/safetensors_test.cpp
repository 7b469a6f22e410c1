#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "kolo/checkpoint.h"
#include "kolo/error.h"
#include "support/temporary_folder.h"

namespace kolo::checkpoint {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto* data = reinterpret_cast<const std::byte*>(text.data());
  return {data, data + text.size()};
}

// A file's bytes around any header text.
std::vector<std::byte> file_with(std::string header, std::size_t data_bytes) {
  std::string text(8, '\0');
  const std::uint64_t length = header.size();
  std::memcpy(text.data(), &length, sizeof(length));
  return bytes_of(text + header + std::string(data_bytes, 'x'));
}

SafetensorsFile parse(std::string header, std::size_t data_bytes) {
  return SafetensorsFile("test.safetensors", file_with(std::move(header), data_bytes));
}

std::vector<std::byte> numbers(std::size_t count) {
  std::vector<std::byte> bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(i * 37 + 11);
  return bytes;
}

TEST(Safetensors, RoundTripKeepsOrderTypesShapesAndBytes) {
  const test::TemporaryFolder folder;
  constexpr std::array kAll{DType::f32, DType::f64, DType::f16, DType::bf16, DType::i8,
                            DType::u8,  DType::i16, DType::i32, DType::i64,  DType::boolean};
  std::vector<std::vector<std::byte>> contents;
  for (const DType dtype : kAll) contents.push_back(numbers(size_of(dtype) * 15));
  std::vector<TensorView> tensors;
  for (std::size_t i = 0; i < kAll.size(); ++i) {
    // Names in the opposite of sorted order: the order of the file is ours.
    tensors.push_back({"tensor" + std::to_string(9 - i), kAll[i], {3, 5}, contents[i]});
  }
  tensors.push_back({"empty", DType::f32, {4, 0}, {}});
  tensors.push_back({"scalar", DType::u8, {}, std::span(contents[0]).first(1)});
  write_safetensors(folder.path() / "a.safetensors", tensors, {{"format", "pt"}});

  const SafetensorsFile file(folder.path() / "a.safetensors");
  ASSERT_EQ(file.tensors().size(), tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const TensorView& got = file.tensors()[i];
    EXPECT_EQ(got.name, tensors[i].name);
    EXPECT_EQ(got.dtype, tensors[i].dtype);
    EXPECT_EQ(got.shape, tensors[i].shape);
    EXPECT_TRUE(std::ranges::equal(got.bytes, tensors[i].bytes)) << got.name;
  }
  EXPECT_EQ(file.metadata(), (Metadata{{"format", "pt"}}));
  EXPECT_TRUE(file.contains("scalar"));
  EXPECT_FALSE(file.contains("scala"));
  EXPECT_THAT([&] { (void)file.at("scala"); }, ThrowsMessage<BackendError>(HasSubstr("no tensor 'scala'")));
}

TEST(Safetensors, FileWithoutTensorsIsReadBack) {
  const test::TemporaryFolder folder;
  write_safetensors(folder.path() / "none", {});
  EXPECT_TRUE(SafetensorsFile(folder.path() / "none").tensors().empty());
}

TEST(Safetensors, WriterRefusesInvalidTensorsAndWritesNoFile) {
  const test::TemporaryFolder folder;
  const auto content = numbers(8);
  const auto write = [&](std::vector<TensorView> tensors) {
    return [&folder, tensors] { write_safetensors(folder.path() / "bad", tensors); };
  };
  EXPECT_THAT(write({{"a", DType::f32, {2}, content}, {"a", DType::f32, {2}, content}}),
              ThrowsMessage<UsageError>(HasSubstr("two tensors have the name 'a'")));
  EXPECT_THAT(write({{"a", DType::f32, {3}, content}}), ThrowsMessage<UsageError>(HasSubstr("8 bytes")));
  EXPECT_THAT(write({{"a", DType::f32, {-2}, content}}), ThrowsMessage<UsageError>(HasSubstr("impossible shape")));
  EXPECT_THAT(write({{"__metadata__", DType::f32, {2}, content}}),
              ThrowsMessage<UsageError>(HasSubstr("__metadata__")));
  EXPECT_THAT(write({{"\xff\xfe", DType::f32, {2}, content}}), ThrowsMessage<UsageError>(HasSubstr("UTF-8")));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path())) << "a refused write leaves nothing behind";
}

TEST(Safetensors, InvalidUtf8InMetadataIsReplaced) {
  const test::TemporaryFolder folder;
  const auto content = numbers(8);
  const std::vector<TensorView> tensors{{"a", DType::f32, {2}, content}};
  write_safetensors(folder.path() / "f", tensors, {{"data", "d\xe9/x"}});
  EXPECT_EQ(SafetensorsFile(folder.path() / "f").metadata().at("data"), "d\xef\xbf\xbd/x");
  EXPECT_THAT(
      [&] {
        write_safetensors(folder.path() / "bad", tensors, {{"\xe9", "x"}});
      },
      ThrowsMessage<UsageError>(HasSubstr("UTF-8")));
}

TEST(Safetensors, EveryTruncationIsRefused) {
  const test::TemporaryFolder folder;
  const auto content = numbers(24);
  const std::vector<TensorView> tensors{{"a", DType::f32, {4}, std::span(content).first(16)},
                                        {"b", DType::i64, {1}, std::span(content).subspan(16)}};
  write_safetensors(folder.path() / "whole", tensors, {{"k", "v"}});
  const std::vector<std::byte> whole = read_file(folder.path() / "whole");
  EXPECT_NO_THROW(SafetensorsFile("whole", whole));
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_THROW(SafetensorsFile("part", {whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)}),
                 BackendError)
        << size;
  }
  auto longer = whole;
  longer.push_back(std::byte{0});
  EXPECT_THROW(SafetensorsFile("longer", longer), BackendError);
}

TEST(Safetensors, FlippedBitNeverReadsBeyondTheFile) {
  const auto whole = file_with(R"({"a":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]}})", 8);
  for (std::size_t i = 0; i < whole.size() * 8; ++i) {
    auto damaged = whole;
    damaged[i / 8] ^= static_cast<std::byte>(1U << (i % 8));
    try {
      const SafetensorsFile file("damaged", damaged);
      for (const TensorView& tensor : file.tensors()) EXPECT_LE(tensor.bytes.size(), 8U);
    } catch (const BackendError&) {
    }
  }
}

struct BadHeader {
  const char* name;
  const char* header;
  const char* message;
};

class SafetensorsHeader : public ::testing::TestWithParam<BadHeader> {};

TEST_P(SafetensorsHeader, InvalidHeaderIsErrorWithReason) {
  EXPECT_THAT([] { parse(GetParam().header, 8); }, ThrowsMessage<BackendError>(::testing::AllOf(
                                                       HasSubstr("test.safetensors"), HasSubstr(GetParam().message))));
}

INSTANTIATE_TEST_SUITE_P(
    Safetensors, SafetensorsHeader,
    ::testing::Values(
        BadHeader{"empty", "", "does not begin with '{'"}, BadHeader{"blank", "  {}", "does not begin with '{'"},
        BadHeader{"text", "{nonsense", "not JSON"}, BadHeader{"list", "[]", "does not begin"},
        BadHeader{"gap_at_end", "{}", "bytes after the last tensor"},
        BadHeader{"not_object", R"({"a":3})", "not described"},
        BadHeader{"extra_key", R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":1}})", "not described"},
        BadHeader{"wrong_key", R"({"a":{"dtype":"F32","shape":[2],"offsets":[0,8]}})", "has no data_offsets"},
        BadHeader{"dtype", R"({"a":{"dtype":"F99","shape":[2],"data_offsets":[0,8]}})", "F99"},
        BadHeader{"shape", R"({"a":{"dtype":"F32","shape":[2.5],"data_offsets":[0,8]}})", "impossible shape"},
        BadHeader{"negative", R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", "impossible shape"},
        BadHeader{"overflow", R"({"a":{"dtype":"F32","shape":[4611686018427387905,4],"data_offsets":[0,8]}})",
                  "impossible shape"},
        BadHeader{"size", R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", "8 bytes"},
        BadHeader{"beyond", R"({"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}})", "exceeds the file"},
        BadHeader{"backwards", R"({"a":{"dtype":"F32","shape":[0],"data_offsets":[8,4]}})", "exceeds the file"},
        BadHeader{"three_offsets", R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8,8]}})", "not two numbers"},
        BadHeader{"gap", R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", "does not follow"},
        BadHeader{"overlap",
                  R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                  R"("b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
                  "does not follow"},
        BadHeader{"twice",
                  R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                  R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
                  "'a' twice"},
        BadHeader{"metadata", R"({"__metadata__":{"k":1},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
                  "not a string"}),
    [](const auto& one) { return std::string(one.param.name); });

TEST(Safetensors, MissingFileIsErrorWithPathAndReason) {
  EXPECT_THAT(
      [] { SafetensorsFile("/nowhere/a.safetensors"); },
      ThrowsMessage<BackendError>(::testing::AllOf(HasSubstr("/nowhere/a.safetensors"), HasSubstr("No such file"))));
}

}  // namespace
}  // namespace kolo::checkpoint
