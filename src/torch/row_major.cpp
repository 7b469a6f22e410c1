#include "torch/row_major.h"

#include <cstring>

namespace kolo {
namespace {

struct Dimensions {
  const std::vector<std::int64_t>& sizes;
  const std::vector<std::int64_t>& strides;
};

template <class Element>
void copy_rows(const Element* from, Element*& to, const Dimensions& of, std::size_t dimension) {
  const std::int64_t stride = of.strides[dimension];
  const std::int64_t size = of.sizes[dimension];
  if (dimension + 1 == of.sizes.size()) {
    for (std::int64_t i = 0; i < size; ++i) *to++ = from[i * stride];
    return;
  }
  for (std::int64_t i = 0; i < size; ++i) copy_rows(from + i * stride, to, of, dimension + 1);
}

template <class Element>
void reorder(std::span<std::byte> bytes, const Dimensions& of, const std::vector<std::byte>& scratch) {
  auto* to = reinterpret_cast<Element*>(bytes.data());
  copy_rows(reinterpret_cast<const Element*>(scratch.data()), to, of, 0);
}

// A floating-point number is finite unless all bits of its exponent are set.
template <class Word>
bool no_full_exponent(std::span<const std::byte> bytes, Word exponent) {
  bool all = true;
  const auto* const words = reinterpret_cast<const Word*>(bytes.data());
  for (std::size_t i = 0; i < bytes.size() / sizeof(Word); ++i) all &= (words[i] & exponent) != exponent;
  return all;
}

}  // namespace

void make_row_major(std::span<std::byte> bytes, std::size_t element, const std::vector<std::int64_t>& sizes,
                    const std::vector<std::int64_t>& strides, std::vector<std::byte>& scratch) {
  if (bytes.empty()) return;
  scratch.assign(bytes.begin(), bytes.end());
  const Dimensions of{sizes, strides};
  if (element == 1) reorder<std::uint8_t>(bytes, of, scratch);
  if (element == 2) reorder<std::uint16_t>(bytes, of, scratch);
  if (element == 4) reorder<std::uint32_t>(bytes, of, scratch);
  if (element == 8) reorder<std::uint64_t>(bytes, of, scratch);
}

bool all_finite(std::span<const std::byte> bytes, DType dtype) {
  switch (dtype) {
    case DType::f32:
      return no_full_exponent<std::uint32_t>(bytes, 0x7f800000);
    case DType::f64:
      return no_full_exponent<std::uint64_t>(bytes, 0x7ff0000000000000);
    case DType::f16:
      return no_full_exponent<std::uint16_t>(bytes, 0x7c00);
    case DType::bf16:
      return no_full_exponent<std::uint16_t>(bytes, 0x7f80);
    default:
      return true;
  }
}

}  // namespace kolo
