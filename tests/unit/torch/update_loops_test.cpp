// The loops of FusedSGD and FusedAdamW, compiled for one vector width in each program (tests/unit/torch_updates.cmake).
#include <gtest/gtest.h>

#include "torch/update_element.h"
#include "torch/update_loops.h"
#include "unit/torch/update_reference.h"

namespace kolo::test {
namespace {

constexpr std::size_t kCount = 1000 + 7;  // some are left behind the last vector of any width
constexpr double kScale = 0.3;

template <class Reference>
class UpdateLoops : public testing::Test {
 protected:
  void SetUp() override {
#if defined(__x86_64__)
    if (KOLO_NEEDS_AVX512 && __builtin_cpu_supports("avx512f") == 0) GTEST_SKIP() << "no AVX-512 here";
    if (KOLO_NEEDS_AVX2 && __builtin_cpu_supports("avx2") == 0) GTEST_SKIP() << "no AVX2 here";
#endif
  }
};
using References = testing::Types<F32Reference, F64Reference, F16Reference, BF16Reference>;
TYPED_TEST_SUITE(UpdateLoops, References);

template <class Reference>
UpdateArrays arrays_of(Elements<Reference>& elements, bool momentum) {
  return {Reference::kDType,
          elements.weight.data(),
          momentum ? elements.first.data() : nullptr,
          elements.second.data(),
          elements.gradient.data(),
          elements.weight.size(),
          kScale};
}

template <class Stored>
void expect_same_bits(const std::vector<Stored>& found, const std::vector<Stored>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  EXPECT_EQ(std::memcmp(found.data(), expected.data(), found.size() * sizeof(Stored)), 0);
}

template <class Reference>
void expect_equal(const Elements<Reference>& found, const Elements<Reference>& expected) {
  expect_same_bits(found.weight, expected.weight);
  expect_same_bits(found.first, expected.first);
  expect_same_bits(found.second, expected.second);
}

TYPED_TEST(UpdateLoops, SgdBitsEqualScalarReference) {
  for (SgdTerms terms : sgd_terms()) {
    Elements<TypeParam> found(kCount), expected(kCount);
    for (int step = 0; step < 3; ++step) {
      terms.first = step == 0;
      found.new_gradients();
      expected.new_gradients();
      sgd_update(arrays_of(found, terms.momentum != 0), terms);
      expected.sgd(terms, kScale);
      expect_equal(found, expected);
      if (this->HasFailure()) FAIL() << "momentum " << terms.momentum << ", step " << step;
    }
  }
}

TYPED_TEST(UpdateLoops, AdamwBitsEqualScalarReference) {
  for (AdamwTerms terms : adamw_terms()) {
    Elements<TypeParam> found(kCount), expected(kCount);
    for (terms.number = 1; terms.number <= 3; ++terms.number) {
      found.new_gradients();
      expected.new_gradients();
      adamw_update(arrays_of(found, true), terms);
      expected.adamw(terms, kScale);
      expect_equal(found, expected);
      if (this->HasFailure()) FAIL() << "lr " << terms.lr << ", step " << terms.number;
    }
  }
}

// If both operands are NaN, a processor returns one of them, depending on the order that the compiler has chosen.
TYPED_TEST(UpdateLoops, NanOfAnyOperandHasTheSameBits) {
  using Stored = typename TypeParam::Stored;
  Elements<TypeParam> found(kCount);
  found.new_gradients();
  const auto nan_of = [](unsigned char payload) {
    Stored value;
    std::memset(&value, 0xff, sizeof value);
    std::memcpy(&value, &payload, 1);  // the lowest bits
    return value;
  };
  std::fill(found.weight.begin(), found.weight.end(), nan_of(0x81));
  std::fill(found.first.begin(), found.first.end(), nan_of(0x82));
  std::fill(found.second.begin(), found.second.end(), nan_of(0x83));
  std::fill(found.gradient.begin(), found.gradient.end(), nan_of(0x84));
  Elements<TypeParam> adamw = found;
  sgd_update(arrays_of(found, true), {0.1, 0.9, 0, 1e-2});
  adamw_update(arrays_of(adamw, true), {0.1, 0.9, 0.999, 1e-8, 0.1, 2});
  for (const auto& each : {found.weight, found.first, adamw.weight, adamw.first, adamw.second}) {
    expect_same_bits(each, std::vector<Stored>(kCount, found.weight.front()));
  }
  EXPECT_TRUE(std::isnan(TypeParam::decode(found.weight.front())));
}

TEST(HalfElement, ConversionsEqualThoseOfBase) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto stored = static_cast<std::uint16_t>(bits);
    const float expected = base::f16_to_f32(stored), found = HalfElement::load(stored);
    ASSERT_TRUE(std::isnan(expected) ? std::isnan(found) : std::memcmp(&expected, &found, sizeof found) == 0) << bits;
  }
  for (std::uint64_t bits = 0; bits <= 0xffffffff; bits += 4093) {
    const auto value = __builtin_bit_cast(float, static_cast<std::uint32_t>(bits));
    if (!std::isnan(value)) {
      ASSERT_EQ(HalfElement::store(value), base::f32_to_f16(value)) << value;
    }
  }
}

TYPED_TEST(UpdateLoops, UpdateInPartsHasBitsOfWholeUpdate) {
  Elements<TypeParam> whole(kCount), parts(kCount);
  whole.new_gradients();
  parts.new_gradients();
  const SgdTerms terms{0.1, 0.9, 0, 1e-2};
  sgd_update(arrays_of(whole, true), terms);
  const std::size_t borders[] = {0, 1, 16, 16, 63, 500, kCount};
  for (std::size_t i = 0; i + 1 < std::size(borders); ++i) {
    sgd_update(part_of(arrays_of(parts, true), borders[i], borders[i + 1]), terms);
  }
  expect_equal(parts, whole);
}

}  // namespace
}  // namespace kolo::test
