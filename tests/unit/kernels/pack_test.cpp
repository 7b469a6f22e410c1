#include "kernels/pack_arguments.h"

#include <gtest/gtest.h>

#include <cstring>

#include "unit/kernels/guarded.h"
#include "unit/kernels/host_table.h"
#include "unit/kernels/reference.h"

namespace kolo::kernels::test {
namespace {

constexpr DType kFloats[] = {DType::f32, DType::f64, DType::f16, DType::bf16};
constexpr Grid kGrids[] = {{1, 1}, {3, 32}, {5, 256}};

struct Case {
  DType tensor_type = DType::f32;
  DType bucket_type = DType::f32;
  double scale = 1.0;
  std::size_t tensors_at = 0;  // bytes behind a 64-byte line; tensor k is at k times `step` behind that
  std::size_t step = 0;
  std::size_t bucket_at = 0;
  std::size_t padding = 16;  // offsets in the bucket are multiples of so many elements
  std::size_t chunk_elements = 512;
  Grid grid{3, 32};
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << name_of(c.tensor_type) << " tensors at " << c.tensors_at << '+' << c.step << ", "
             << name_of(c.bucket_type) << " bucket at " << c.bucket_at << " padded to " << c.padding << ", scale "
             << c.scale << ", chunks of " << c.chunk_elements << ", grid " << c.grid.blocks << 'x' << c.grid.threads;
}

constexpr std::size_t kCounts[] = {1, 0, 5, 64, 3, 0, 1027, 2, 17, 4096, 31, 256};
constexpr std::size_t kMissing = 4;

// Tensors of odd sizes and a bucket; one tensor is missing.
class PackRun {
 public:
  explicit PackRun(const Case& c) : case_(c), random_(c.tensors_at + 3 * c.bucket_at) {
    const std::size_t size = size_of(c.tensor_type);
    for (std::size_t k = 0; k < std::size(kCounts); ++k) {
      places_.push_back({end_, kCounts[k]});
      end_ += (kCounts[k] + c.padding - 1) / c.padding * c.padding + (k == 2 ? c.padding : 0);
      tensors_.emplace_back(kCounts[k] * size, (c.tensors_at + k * c.step) % 64);
      fill(tensors_.back().data(), kCounts[k], c.tensor_type, random_);
    }
    bucket_.emplace_back(end_ * size_of(c.bucket_type), c.bucket_at);
  }

  void check_pack() {
    std::vector<std::byte> expected(end_ * size_of(case_.bucket_type), kUntouched);
    std::memset(bucket(), static_cast<int>(kUntouched), expected.size());
    for (std::size_t k = 0; k < places_.size(); ++k) {
      std::byte* to = expected.data() + places_[k].offset * size_of(case_.bucket_type);
      if (k == kMissing) {
        std::memset(to, 0, places_[k].count * size_of(case_.bucket_type));
      } else {
        reference(tensors_[k].data(), case_.tensor_type, to, case_.bucket_type, places_[k].count);
      }
    }
    run("kolo_pack");
    compare(bucket(), expected.data(), case_.bucket_type, end_, "bucket");
    check_guards();
  }

  void check_unpack() {
    fill(bucket(), end_, case_.bucket_type, random_);
    run("kolo_unpack");
    for (std::size_t k = 0; k < places_.size(); ++k) {
      if (k == kMissing) continue;
      std::vector<std::byte> expected(places_[k].count * size_of(case_.tensor_type));
      reference(bucket() + places_[k].offset * size_of(case_.bucket_type), case_.bucket_type, expected.data(),
                case_.tensor_type, places_[k].count);
      compare(tensors_[k].data(), expected.data(), case_.tensor_type, places_[k].count, "tensor " + std::to_string(k));
    }
    check_guards();
  }

 private:
  static constexpr std::byte kUntouched{0x3c};
  std::byte* bucket() { return bucket_.front().data(); }
  [[nodiscard]] bool as_it_is() const { return case_.tensor_type == case_.bucket_type && case_.scale == 1.0; }

  void run(std::string_view kernel) {
    std::vector<std::byte*> addresses;
    for (Guarded& tensor : tensors_) addresses.push_back(tensor.data());
    addresses[kMissing] = nullptr;
    const HostTable table(places_, addresses, case_.chunk_elements);
    const auto bytes = static_cast<std::uint8_t>(as_it_is() ? size_of(case_.tensor_type) : 0);
    run_kernel(kernel, PackArguments{table.view(), bucket(), case_.scale, case_.tensor_type, case_.bucket_type, bytes},
               case_.grid);
  }

  void reference(const std::byte* in, DType in_type, std::byte* out, DType out_type, std::size_t count) const {
    if (as_it_is()) return static_cast<void>(count != 0 ? std::memcpy(out, in, count * size_of(in_type)) : out);
    for (std::size_t i = 0; i < count; ++i) {
      scale_reference(in + i * size_of(in_type), in_type, out + i * size_of(out_type), out_type, case_.scale);
    }
  }

  void compare(const std::byte* got, const std::byte* expected, DType dtype, std::size_t count,
               const std::string& what) const {
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t at = i * size_of(dtype);
      const bool equal =
          as_it_is() ? std::memcmp(got + at, expected + at, size_of(dtype)) == 0 : same(got + at, expected + at, dtype);
      ASSERT_TRUE(equal) << case_ << ": element " << i << " of " << what;
    }
  }

  void check_guards() const {
    for (const auto* guarded : {&tensors_, &bucket_}) {
      for (const Guarded& memory : *guarded) ASSERT_TRUE(memory.intact()) << case_ << ": written beside it";
    }
  }

  Case case_;
  std::mt19937_64 random_;
  std::vector<TensorPlace> places_;
  std::size_t end_ = 0;
  std::vector<Guarded> tensors_;
  std::vector<Guarded> bucket_;
};

void check(const Case& c) {
  PackRun(c).check_pack();
  PackRun(c).check_unpack();
}

TEST(Pack, EveryPairOfFloatsAtOddPlaces) {
  for (const DType tensor_type : kFloats) {
    for (const DType bucket_type : kFloats) {
      for (const double scale : {1.0, 0.25, 1.0 / 3}) {
        for (const std::size_t at : {std::size_t{0}, size_of(tensor_type), std::size_t{1}, std::size_t{40}}) {
          for (const std::size_t bucket_at : {std::size_t{0}, size_of(bucket_type), std::size_t{24}}) {
            check({tensor_type, bucket_type, scale, at, size_of(tensor_type), bucket_at});
            if (HasFatalFailure()) return;
          }
        }
      }
    }
  }
}

TEST(Pack, OtherTypesAsTheyAre) {
  for (const DType dtype : {DType::i8, DType::u8, DType::i16, DType::i32, DType::i64, DType::boolean}) {
    for (const std::size_t at : {std::size_t{0}, size_of(dtype), std::size_t{1}, std::size_t{63}}) {
      for (const std::size_t bucket_at : {std::size_t{0}, size_of(dtype), std::size_t{3}}) {
        check({dtype, dtype, 1.0, at, size_of(dtype), bucket_at});
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(Pack, EveryGridAndChunkSize) {
  for (const Grid& grid : kGrids) {
    for (const std::size_t chunk_elements : {1, 7, 16, 100, 4096, 100000}) {
      for (const std::size_t padding : {1, 3, 16}) {
        check({DType::f32, DType::bf16, 0.5, 0, 4, 0, padding, chunk_elements, grid});
        check({DType::f32, DType::f32, 1.0, 0, 0, 0, padding, chunk_elements, grid});
        check({DType::f16, DType::f32, 3.0, 0, 0, 0, padding, chunk_elements, grid});
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(Pack, NothingToDo) {
  const std::byte* none = nullptr;
  const HostTable table({{0, 0}, {0, 0}}, {nullptr, nullptr}, 512);
  EXPECT_EQ(table.view().chunk_count, 0u);
  run_kernel("kolo_pack", PackArguments{table.view(), const_cast<std::byte*>(none), 0.5, DType::f32, DType::f16, 0},
             {2, 32});
}

}  // namespace
}  // namespace kolo::kernels::test
