// The allocator in which autograd makes gradients, with plain memory instead of shared memory.
#include "torch/gradient_allocator.h"

#include <ATen/ops/empty.h>
#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>
#include <torch/nn/functional/conv.h>
#include <torch/types.h>

#include <set>
#include <thread>

namespace kolo {
namespace {

// Blocks of one size; counts the blocks that were taken.
class Blocks final : public GradientMemory {
 public:
  Blocks(std::size_t bytes, std::size_t count) : bytes_(bytes), memory_(bytes * count + 64) {
    const auto at = reinterpret_cast<std::uintptr_t>(memory_.data());
    for (std::size_t i = 0; i < count; ++i) free_.insert(memory_.data() + (64 - at % 64) % 64 + i * bytes);
  }
  ~Blocks() override {
    if (gone != nullptr) *gone = true;
  }
  void* take(std::size_t bytes) noexcept override {
    if (bytes != bytes_ || free_.empty()) return nullptr;
    std::byte* block = *free_.begin();
    free_.erase(free_.begin());
    ++taken;
    return block;
  }
  void give_back(void* block) noexcept override { free_.insert(static_cast<std::byte*>(block)); }
  bool owns(const void* data) const noexcept override {
    return data >= memory_.data() && data < memory_.data() + memory_.size();
  }
  [[nodiscard]] std::size_t left() const { return free_.size(); }

  int taken = 0;
  bool* gone = nullptr;

 private:
  std::size_t bytes_;
  std::vector<std::byte> memory_;
  std::set<std::byte*> free_;
};

class GradientAllocatorTest : public testing::Test {
 protected:
  ~GradientAllocatorTest() override {
    for (const auto& parameter : served_) GradientAllocator::instance().forget(parameter.unsafeGetTensorImpl());
  }
  void serve(const at::Tensor& parameter, std::shared_ptr<GradientMemory> memory) {
    GradientAllocator::instance().serve(parameter.unsafeGetTensorImpl(), parameter.nbytes(), std::move(memory));
    served_.push_back(parameter);
  }
  static at::Tensor ones(std::vector<std::int64_t> sizes) { return torch::ones(sizes).requires_grad_(true); }

 private:
  std::vector<at::Tensor> served_;
};

TEST_F(GradientAllocatorTest, GradientIsMadeInItsMemoryAndReturned) {
  const auto memory = std::make_shared<Blocks>(4000, 1);
  const at::Tensor w = ones({1000});
  serve(w, memory);
  for (int step = 0; step < 3; ++step) {
    (w * torch::full({1000}, 3.0)).sum().backward();
    EXPECT_TRUE(memory->owns(w.grad().const_data_ptr()));
    EXPECT_TRUE(w.grad().eq(3).all().item<bool>());
    EXPECT_EQ(memory->left(), 0U);
    w.mutable_grad().reset();
    EXPECT_EQ(memory->left(), 1U);
  }
}

TEST_F(GradientAllocatorTest, OtherTensorsAreNotMadeInMemoryOfGradient) {
  const auto memory = std::make_shared<Blocks>(4000, 4);
  const at::Tensor w = ones({1000});
  const at::Tensor other = ones({1000});
  serve(w, memory);
  EXPECT_FALSE(memory->owns(torch::empty({1000}).const_data_ptr()));  // no backward
  (other * torch::full({1000}, 3.0)).exp().sum().backward();          // another parameter, of the same size
  EXPECT_FALSE(memory->owns(other.grad().const_data_ptr()));
  EXPECT_EQ(memory->taken, 0);
}

// The gradient of the linear layer's weight passes through a transposition, the other one through a cast.
TEST_F(GradientAllocatorTest, GradientBehindViewOrCastIsMadeInItsMemory) {
  const auto memory = std::make_shared<Blocks>(6000, 1);
  const at::Tensor w = ones({30, 50});
  serve(w, memory);
  torch::mm(torch::ones({8, 50}), w.t()).sum().backward();
  EXPECT_TRUE(memory->owns(w.grad().const_data_ptr()));
  EXPECT_TRUE(w.grad().eq(8).all().item<bool>());
  w.mutable_grad().reset();
  w.to(torch::kFloat64).mul(2).sum().backward();
  EXPECT_TRUE(memory->owns(w.grad().const_data_ptr()));
}

// A strided convolution in channels_last makes its weight's gradient by way of temporaries of the same size. With one
// block, the right request is found within as many backward passes as there are requests.
TEST_F(GradientAllocatorTest, LearnsWhichRequestIsTheGradient) {
  at::Tensor w = torch::ones({32, 32, 3, 3}).contiguous(at::MemoryFormat::ChannelsLast).requires_grad_(true);
  const at::Tensor x = torch::ones({2, 32, 8, 8}).contiguous(at::MemoryFormat::ChannelsLast);
  const auto memory = std::make_shared<Blocks>(w.nbytes(), 1);
  serve(w, memory);
  const auto backward = [&] {
    w.mutable_grad().reset();
    torch::nn::functional::conv2d(x, w, torch::nn::functional::Conv2dFuncOptions().stride(2)).sum().backward();
    const bool found = memory->owns(w.grad().const_data_ptr());
    GradientAllocator::instance().learn(w.unsafeGetTensorImpl(), found);
    return found;
  };
  bool found = false;
  for (int step = 0; step < 5 && !found; ++step) found = backward();
  EXPECT_TRUE(found);
  for (int step = 0; step < 5; ++step) EXPECT_TRUE(backward());
}

TEST_F(GradientAllocatorTest, GradientIsMadeElsewhereIfNoBlockIsFree) {
  const auto memory = std::make_shared<Blocks>(4000, 1);
  const at::Tensor w = ones({1000});
  serve(w, memory);
  (w * 2).sum().backward();
  const at::Tensor kept = w.grad();
  w.mutable_grad().reset();
  (w * 5).sum().backward();
  EXPECT_FALSE(memory->owns(w.grad().const_data_ptr()));
  EXPECT_TRUE(kept.eq(2).all().item<bool>());
  EXPECT_TRUE(w.grad().eq(5).all().item<bool>());
}

TEST_F(GradientAllocatorTest, MemoryLivesUntilAnyThreadFreesItsLastBlock) {
  bool gone = false;
  auto memory = std::make_shared<Blocks>(4000, 2);
  memory->gone = &gone;
  const at::Tensor w = ones({1000});
  serve(w, memory);
  (w * 2).sum().backward();
  GradientAllocator::instance().forget(w.unsafeGetTensorImpl());
  memory.reset();
  EXPECT_FALSE(gone);
  EXPECT_TRUE(w.grad().eq(2).all().item<bool>());
  std::thread([&] { w.mutable_grad().reset(); }).join();
  EXPECT_TRUE(gone);
  (w * 2).sum().backward();  // and the process goes on without it
  EXPECT_TRUE(w.grad().eq(2).all().item<bool>());
}

TEST_F(GradientAllocatorTest, RawMemoryIsNotMadeInMemoryOfGradient) {
  const auto memory = std::make_shared<Blocks>(4000, 1);
  serve(ones({1000}), memory);
  auto* allocator = c10::GetCPUAllocator();
  ASSERT_EQ(allocator, &GradientAllocator::instance());
  void* raw = allocator->raw_allocate(4000);
  EXPECT_FALSE(memory->owns(raw));
  allocator->raw_deallocate(raw);
  allocator->raw_deallocate(allocator->raw_allocate(0));
}

}  // namespace
}  // namespace kolo
