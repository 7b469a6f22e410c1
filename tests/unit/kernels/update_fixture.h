#pragma once
// Tensors, their bucket of gradients, and the arrays of an optimizer, and the same once more for the reference.
#include <cstring>
#include <string>
#include <vector>

#include "unit/kernels/guarded.h"
#include "unit/kernels/host_table.h"
#include "unit/kernels/reference.h"

namespace kolo::kernels::test {

struct UpdateLayout {
  std::size_t arrays = 2;
  std::size_t padding = 16;  // elements
  std::size_t at = 0;        // bytes that array a of tensor k lies behind a line: at + (a + k) * step
  std::size_t step = 0;      // multiples of 4
  std::size_t chunk_elements = 512;
  Grid grid{3, 32};
};

class Update {
 public:
  static constexpr std::size_t kCounts[] = {5, 0, 64, 1, 1027, 3, 2048, 31};
  static constexpr std::size_t kMissing = 3;  // has no gradient: nothing of it is touched

  explicit Update(const UpdateLayout& layout) : layout_(layout), random_(layout.at + 5 * layout.step) {
    std::size_t end = 0;
    for (const std::size_t count : kCounts) {
      places_.push_back({end, count});
      end += (count + layout.padding - 1) / layout.padding * layout.padding;
    }
    bucket_.emplace_back(end * sizeof(float), 0);
    for (std::size_t a = 0; a < layout.arrays; ++a) {
      for (std::size_t k = 0; k < std::size(kCounts); ++k) {
        memory_.emplace_back(kCounts[k] * sizeof(float), (layout.at + (a + k) * layout.step) % 64);
        // Weights are anything; the moments begin with zeros, as the optimizers have it.
        for (std::size_t i = 0; i < kCounts[k]; ++i) array(a, k)[i] = a == 0 ? value() : 0.0F;
        expected_.emplace_back(array(a, k), array(a, k) + kCounts[k]);
      }
    }
  }

  void new_gradients() {
    for (std::size_t k = 0; k < std::size(kCounts); ++k) {
      for (std::size_t i = 0; i < kCounts[k]; ++i) gradient(k)[i] = value();
    }
  }
  // Those of one tensor.
  std::vector<float> gradients(std::size_t k, float scale) {
    std::vector<float> result(gradient(k), gradient(k) + kCounts[k]);
    for (float& each : result) each *= scale;
    return result;
  }

  template <class Arguments>
  void run(std::string_view kernel, Arguments arguments) {
    std::vector<std::byte*> addresses;
    for (std::size_t k = 0; k < std::size(kCounts); ++k) addresses.push_back(reinterpret_cast<std::byte*>(gradient(k)));
    for (Guarded& memory : memory_) addresses.push_back(memory.data());
    addresses[kMissing] = nullptr;
    const HostTable table(places_, addresses, layout_.chunk_elements);
    arguments.table = table.view();
    run_kernel(kernel, arguments, layout_.grid);
  }

  // Memory of the reference.
  float* expected(std::size_t a, std::size_t k) { return expected_[a * std::size(kCounts) + k].data(); }

  void compare(const std::string& when) {
    for (std::size_t a = 0; a < layout_.arrays; ++a) {
      for (std::size_t k = 0; k < std::size(kCounts); ++k) {
        for (std::size_t i = 0; i < kCounts[k]; ++i) {
          ASSERT_EQ(std::bit_cast<std::uint32_t>(array(a, k)[i]), std::bit_cast<std::uint32_t>(expected(a, k)[i]))
              << when << ": array " << a << " of tensor " << k << " element " << i << ": " << array(a, k)[i] << " and "
              << expected(a, k)[i];
        }
      }
    }
    for (const auto* guarded : {&memory_, &bucket_}) {
      for (const Guarded& memory : *guarded) ASSERT_TRUE(memory.intact()) << when << ": written beside it";
    }
  }

 private:
  float value() { return static_cast<float>(static_cast<std::int64_t>(random_() % 20001) - 10000) / 7919.0F; }
  float* array(std::size_t a, std::size_t k) {
    return reinterpret_cast<float*>(memory_[a * std::size(kCounts) + k].data());
  }
  float* gradient(std::size_t k) { return reinterpret_cast<float*>(bucket_.front().data()) + places_[k].offset; }

  UpdateLayout layout_;
  std::mt19937_64 random_;
  std::vector<TensorPlace> places_;
  std::vector<Guarded> bucket_;
  std::vector<Guarded> memory_;  // [array * tensors + tensor]
  std::vector<std::vector<float>> expected_;
};

// Addresses that go with 16-byte accesses, and others.
inline std::vector<UpdateLayout> update_layouts(std::size_t arrays) {
  std::vector<UpdateLayout> layouts;
  layouts.push_back({arrays, 16, 0, 0, 512, {3, 32}});
  layouts.push_back({arrays, 16, 0, 0, 100, {2, 256}});
  layouts.push_back({arrays, 1, 8, 0, 512, {1, 1}});
  layouts.push_back({arrays, 3, 4, 4, 64, {5, 64}});
  return layouts;
}

}  // namespace kolo::kernels::test
