// FusedSGD and FusedAdamW in CPU memory: the same bits for any number of threads, any layout, and any CPU capability of
// LibTorch (tests/unit/torch.cmake runs this program with a second capability).
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <complex>
#include <functional>
#include <memory>

#include "kolo/error.h"
#include "kolo/torch/fused_optimizers.h"
#include "unit/torch/update_reference.h"

namespace kolo::test {
namespace {

using torch::optim::AdamWOptions;
using torch::optim::SGDOptions;

constexpr double kScale = 0.3;

class Threads {
 public:
  explicit Threads(int count) : before_(at::get_num_threads()) { at::set_num_threads(count); }
  ~Threads() { at::set_num_threads(before_); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

 private:
  int before_;
};

template <class Reference>
constexpr at::ScalarType scalar_type() {
  switch (Reference::kDType) {
    case DType::f64:
      return torch::kFloat64;
    case DType::f16:
      return torch::kFloat16;
    case DType::bf16:
      return torch::kBFloat16;
    default:
      return torch::kFloat32;
  }
}

// Zeros of 6 * count elements.
struct Layout {
  const char* name;
  std::function<at::Tensor(std::int64_t count, at::ScalarType type)> make;
};

const std::vector<Layout>& layouts() {
  static const std::vector<Layout> layouts = {
      {"contiguous",
       [](auto n, auto type) {
         return torch::zeros({2, 3, n, 1}, type);
       }},
      {"channels_last",
       [](auto n, auto type) {
         return torch::zeros({2, 3, n, 1}, type).contiguous(at::MemoryFormat::ChannelsLast);
       }},
      {"transposed",
       [](auto n, auto type) {
         return torch::zeros({1, n, 3, 2}, type).permute({3, 2, 1, 0});
       }},
      {"gaps",
       [](auto n, auto type) {
         return torch::zeros({2, 3, n, 3}, type).narrow(3, 1, 1);
       }},
      {"rows with gaps",
       [](auto n, auto type) {
         return torch::zeros({2, 3, n + 5, 1}, type).narrow(2, 2, n);
       }},
      {"not aligned",
       [](auto n, auto type) {
         return torch::zeros({6 * n + 1}, type).narrow(0, 1, 6 * n).view({2, 3, n, 1});
       }},
  };
  return layouts;
}

// Sizes around the parts that threads take.
const std::int64_t kCounts[] = {1, 5461, 10922, 10923, 16385, 27307};

template <class Reference>
void write(const at::Tensor& to, const std::vector<typename Reference::Stored>& values) {
  at::Tensor dense = torch::empty(to.sizes(), to.scalar_type());
  std::memcpy(dense.mutable_data_ptr(), values.data(), dense.nbytes());
  to.copy_(dense);
}

template <class Stored>
bool holds(const at::Tensor& tensor, const std::vector<Stored>& expected) {
  const at::Tensor dense = tensor.contiguous();
  return dense.nbytes() == expected.size() * sizeof(Stored) &&
         std::memcmp(dense.const_data_ptr(), expected.data(), dense.nbytes()) == 0;
}

struct Case {
  std::int64_t count;
  const Layout& layout;
  const Layout& gradient_layout;
  std::vector<int> threads;
};

template <class Reference>
class FusedUpdate : public testing::Test {
 protected:
  static constexpr at::ScalarType kType = scalar_type<Reference>();

  // Three steps, with each number of threads. `act`: a step of the reference.
  template <class Optimizer, class Options>
  static void expect_bits_of_scalars(const Options& options, const Case& how,
                                     const std::function<void(Elements<Reference>&, int step)>& act) {
    Elements<Reference> expected(static_cast<std::size_t>(6 * how.count));
    std::vector<at::Tensor> weights;
    std::vector<std::unique_ptr<Optimizer>> optimizers;
    for (std::size_t i = 0; i < how.threads.size(); ++i) {
      weights.push_back(how.layout.make(how.count, kType));
      write<Reference>(weights[i], expected.weight);
      weights[i].mutable_grad() = how.gradient_layout.make(how.count, kType);
      optimizers.push_back(std::make_unique<Optimizer>(std::vector<at::Tensor>{weights[i]}, options));
      optimizers[i]->set_gradient_scale(kScale);
    }
    for (int step = 0; step < 3; ++step) {
      expected.new_gradients();
      act(expected, step);
      for (std::size_t i = 0; i < how.threads.size(); ++i) {
        SCOPED_TRACE(std::to_string(how.threads[i]) + " threads, step " + std::to_string(step));
        write<Reference>(weights[i].grad(), expected.gradient);
        const Threads set(how.threads[i]);
        optimizers[i]->step();
        expect_holds(weights[i], optimizers[i]->kept_for(weights[i]), expected);
        if (HasFatalFailure()) return;
      }
    }
  }

  static void expect_holds(const at::Tensor& weight, const std::vector<at::Tensor>& kept,
                           const Elements<Reference>& expected) {
    ASSERT_TRUE(holds(weight, expected.weight));
    ASSERT_TRUE(holds(weight.grad(), expected.gradient)) << "the gradient was changed";
    for (std::size_t i = 0; i < std::min<std::size_t>(kept.size(), 2); ++i) {
      ASSERT_EQ(kept[i].scalar_type(), kType);
      ASSERT_TRUE(holds(kept[i], i == 0 ? expected.first : expected.second)) << i;
    }
  }

  static void expect_sgd(const SgdTerms& terms, const Case& how) {
    const auto options = SGDOptions(terms.lr)
                             .momentum(terms.momentum)
                             .dampening(terms.dampening)
                             .weight_decay(terms.weight_decay)
                             .nesterov(terms.nesterov);
    expect_bits_of_scalars<FusedSGD>(options, how, [&](auto& elements, int step) {
      SgdTerms now = terms;
      now.first = step == 0;
      elements.sgd(now, kScale);
    });
  }
  static void expect_adamw(const AdamwTerms& terms, const Case& how) {
    const auto options =
        AdamWOptions(terms.lr).betas({terms.beta1, terms.beta2}).eps(terms.epsilon).weight_decay(terms.weight_decay);
    expect_bits_of_scalars<FusedAdamW>(options, how, [&](auto& elements, int step) {
      AdamwTerms now = terms;
      now.number = step + 1;
      elements.adamw(now, kScale);
    });
  }
};
using References = testing::Types<F32Reference, F64Reference, F16Reference, BF16Reference>;
TYPED_TEST_SUITE(FusedUpdate, References);

TYPED_TEST(FusedUpdate, BitsEqualScalarReferenceForAnyThreadCount) {
  for (const std::int64_t count : kCounts) {
    SCOPED_TRACE("6 * " + std::to_string(count) + " elements");
    const Case how{count, layouts()[0], layouts()[0], {1, 2, 3, 7}};
    this->expect_sgd(sgd_terms()[3], how);
    this->expect_adamw(adamw_terms()[0], how);
    if (this->HasFatalFailure()) return;
  }
}

TYPED_TEST(FusedUpdate, BitsEqualScalarReferenceForEveryLayout) {
  for (const Layout& layout : layouts()) {
    for (const Layout& gradient : layouts()) {
      if (&layout != layouts().data() && &gradient != layouts().data() && &layout != &gradient) continue;
      SCOPED_TRACE(std::string(layout.name) + ", gradient " + gradient.name);
      this->expect_sgd(sgd_terms()[3], {10923, layout, gradient, {3}});
      this->expect_sgd(sgd_terms()[3], {7, layout, gradient, {3}});
      this->expect_adamw(adamw_terms()[0], {7, layout, gradient, {3}});
      if (this->HasFatalFailure()) return;
    }
  }
}

TYPED_TEST(FusedUpdate, BitsEqualScalarReferenceForEveryOption) {
  const Case how{10923, layouts()[0], layouts()[0], {1, 2}};
  for (const SgdTerms& terms : sgd_terms()) this->expect_sgd(terms, how);
  for (const AdamwTerms& terms : adamw_terms()) this->expect_adamw(terms, how);
}

// For example after a model was converted and its optimizer's state was not: the update is computed in the wider type,
// and each value is stored in its own.
TEST(FusedSGD, MixedTypesHaveBitsOfWiderType) {
  for (const int threads : {1, 3}) {
    const Threads set(threads);
    constexpr std::int64_t kCount = 70001;
    at::Tensor narrow = torch::linspace(-1, 1, kCount).to(torch::kBFloat16), wide = narrow.to(torch::kFloat32);
    FusedSGD narrow_sgd({narrow}, SGDOptions(0.1).momentum(0.5)), wide_sgd({wide}, SGDOptions(0.1).momentum(0.5));
    for (int step = 0; step < 3; ++step) {
      narrow.mutable_grad() = torch::cos(torch::arange(kCount) + step).to(torch::kBFloat16);
      wide.mutable_grad() = narrow.grad().to(torch::kFloat32);
      wide.copy_(narrow);
      narrow_sgd.step();
      wide_sgd.step();
      if (step > 0) {
        EXPECT_TRUE(torch::equal(narrow, wide.to(torch::kBFloat16)));
        EXPECT_TRUE(torch::equal(narrow_sgd.kept_for(narrow)[0], wide_sgd.kept_for(wide)[0]));
      }
      if (step == 0) {
        auto& state = static_cast<torch::optim::SGDParamState&>(*narrow_sgd.state().begin()->second);
        state.momentum_buffer(wide_sgd.kept_for(wide)[0].clone());
      }
    }
  }
}

TEST(FusedSGD, ComplexParametersAreUpdatedAsRealParameters) {
  at::Tensor weight = torch::view_as_complex(torch::randn({1000, 2}));
  at::Tensor real = torch::view_as_real(weight).clone();
  FusedSGD complex_sgd({weight}, SGDOptions(0.1).momentum(0.9)), real_sgd({real}, SGDOptions(0.1).momentum(0.9));
  for (int step = 0; step < 2; ++step) {
    real.mutable_grad() = torch::randn({1000, 2});
    weight.mutable_grad() = torch::view_as_complex(real.grad()).conj().resolve_conj().conj();  // lazily conjugated
    complex_sgd.step();
    real_sgd.step();
    EXPECT_TRUE(torch::equal(torch::view_as_real(weight), real));
  }
  EXPECT_THROW(FusedAdamW({weight}, AdamWOptions(0.1)).step(), UsageError);
}

TEST(FusedSGD, LazilyNegatedGradientIsUsedAsItsValue) {
  at::Tensor weight = torch::ones({1000});
  const at::Tensor negated = torch::imag(torch::complex(torch::ones({1000}), torch::full({1000}, 2.0)).conj());
  ASSERT_TRUE(negated.is_neg());
  FusedSGD sgd({weight}, SGDOptions(0.5));
  weight.mutable_grad() = negated;
  sgd.step();
  EXPECT_TRUE(weight.eq(2).all().item<bool>());  // 1 - 0.5 * -2
}

TEST(FusedSGD, SparseGradientEqualsDenseGradient) {
  at::Tensor weight = torch::ones({6, 4}), dense = torch::ones({6, 4});
  FusedSGD sparse_sgd({weight}, SGDOptions(0.1).momentum(0.9)), dense_sgd({dense}, SGDOptions(0.1).momentum(0.9));
  for (int step = 0; step < 2; ++step) {
    dense.mutable_grad() = torch::zeros({6, 4});
    dense.mutable_grad()[2].fill_(3);
    weight.mutable_grad() = dense.grad().to_sparse();
    sparse_sgd.step();
    dense_sgd.step();
    EXPECT_TRUE(torch::equal(weight, dense));
  }
}

template <class Optimizer, class Options>
std::string error_of_step(const at::Tensor& weight, const Options& options) {
  Optimizer optimizer({weight}, options);
  try {
    optimizer.step();
  } catch (const UsageError& error) {
    return error.what();
  }
  return "no error";
}

TEST(FusedOptimizers, WeightWithOverlappingElementsIsUsageError) {
  for (const at::Tensor& weight : {torch::ones({3, 1}).expand({3, 4}), torch::ones({10}).as_strided({5, 4}, {1, 1}),
                                   torch::ones({10}).as_strided({2, 4}, {3, 1})}) {
    const at::Tensor before = weight.clone();
    weight.mutable_grad() = torch::ones(weight.sizes());
    for (const std::string& text : {error_of_step<FusedSGD>(weight, SGDOptions(0.1).momentum(0.9)),
                                    error_of_step<FusedAdamW>(weight, AdamWOptions(0.1))}) {
      EXPECT_NE(text.find("elements of parameter 0 of group 0 share memory"), std::string::npos) << text;
    }
    EXPECT_TRUE(torch::equal(weight, before));
  }
}

TEST(FusedSGD, UnsupportedTypeIsNamedInUsageError) {
  const at::Tensor weight = torch::ones({4}, torch::kInt64);
  weight.mutable_grad() = torch::ones({4}, torch::kInt64);
  const std::string text = error_of_step<FusedSGD>(weight, SGDOptions(1));
  EXPECT_NE(text.find("parameter 0 of group 0 has type Long"), std::string::npos) << text;
}

}  // namespace
}  // namespace kolo::test
