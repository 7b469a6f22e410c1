#include "torch/tensor_check.h"

#include <ATen/FunctionalTensorWrapper.h>
#include <ATen/ops/_efficientzerotensor.h>
#include <ATen/ops/_nested_tensor_from_tensor_list.h>
#include <gmock/gmock.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "torch/fingerprint.h"
#include "torch/torch_device.h"

namespace kolo {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

TEST(TensorCheck, AcceptsDenseTensorsAndViews) {
  const at::Tensor x = torch::ones({4, 6});
  for (const at::Tensor& tensor :
       {x, x.t(), x.select(1, 2), x.slice(1, 0, 6, 2), x.view({24}), torch::_neg_view(x), torch::ones({}),
        torch::ones({3, 0, 2}), torch::ones({4, 6}).as_strided({2, 1, 3}, {6, 99, 1}), x.to(torch::kBFloat16),
        x.to(torch::kBool), x.to(torch::kLong), torch::ones({3, 1}).expand({3, 1})}) {
    EXPECT_THAT(trouble_with(tensor, Access::write), IsEmpty()) << tensor.sizes() << tensor.strides();
  }
  at::Tensor inference;
  {
    const c10::InferenceMode guard;
    inference = torch::ones(8);
  }
  EXPECT_THAT(trouble_with(inference, Access::write), IsEmpty());
}

TEST(TensorCheck, RefusesOverlappingElementsForWritingOnly) {
  const at::Tensor x = torch::ones({12});
  for (const at::Tensor& tensor : {torch::ones({1, 12}).expand({2, -1}), torch::ones({}).expand({5}),
                                   x.as_strided({3, 3}, {1, 1}), x.unfold(0, 3, 2), x.as_strided({2, 2}, {0, 1})}) {
    EXPECT_THAT(trouble_with(tensor, Access::write), HasSubstr("has elements that overlap"));
    EXPECT_THAT(trouble_with(tensor, Access::read), IsEmpty());
  }
  EXPECT_THAT(trouble_with(x.unfold(0, 3, 4), Access::write), IsEmpty());
}

TEST(TensorCheck, NamesReasonForEachUnsupportedTensor) {
  const at::Tensor x = torch::ones({2, 3});
  const std::vector<std::pair<at::Tensor, std::string>> cases = {
      {at::Tensor(), "is undefined"},
      {x.to_sparse(), "is sparse"},
      {x.to_sparse_csr(), "is sparse"},
      {x.to_mkldnn(), "oneDNN"},
      {torch::quantize_per_tensor(x, 0.1, 0, torch::kQInt8), "is quantized"},
      {at::_nested_tensor_from_tensor_list({torch::ones({2}), torch::ones({3})}), "is nested"},
      {torch::zeros({2}, torch::kComplexFloat), "view_as_real"},
      {torch::zeros({2}, torch::kComplexFloat).conj(), "view_as_real"},
      {torch::empty({2}, torch::device(torch::kMeta)), "is on device meta"},
      {torch::zeros({2}).to(torch::kFloat8_e5m2), "Float8"},
      {at::functionalization::impl::to_functional_tensor(torch::ones({2})), "wraps another tensor"},
  };
  for (const auto& [tensor, text] : cases) {
    EXPECT_THAT(trouble_with(tensor, Access::read), HasSubstr(text));
    EXPECT_THAT(trouble_with(tensor, Access::write), HasSubstr(text));
  }
  const at::Tensor freed = torch::ones({4});
  freed.storage().unsafeGetStorageImpl()->set_nbytes(0);
  EXPECT_THAT(trouble_with(freed, Access::read), HasSubstr("has less memory than elements"));
  const at::Tensor zero = at::_efficientzerotensor({3}, torch::kFloat);
  EXPECT_THAT(trouble_with(zero, Access::read), IsEmpty());
  EXPECT_THAT(trouble_with(zero, Access::write), HasSubstr("cannot be written"));
}

TEST(TensorCheck, RefusesTensorThatRequiresGradientInGradientMode) {
  const at::Tensor leaf = torch::ones({2}).requires_grad_(true);
  for (const at::Tensor& tensor : {leaf, leaf.mul(2), leaf.view({2, 1})}) {
    EXPECT_THAT(trouble_with_graph(tensor), HasSubstr("detach()"));
    EXPECT_THAT(trouble_with_graph(tensor.detach()), IsEmpty());
    const torch::NoGradGuard no_grad;
    EXPECT_THAT(trouble_with_graph(tensor), IsEmpty());
  }
}

TEST(HostForm, IsDenseAndHasValuesOfLazyTensor) {
  const at::Tensor x = torch::arange(6, torch::kFloat).view({2, 3});
  const at::Tensor z = torch::complex(x, x + 1);
  for (const at::Tensor& tensor : {torch::_neg_view(x), torch::_neg_view(x).t(), torch::_neg_view(x).select(1, 1),
                                   torch::imag(z.conj()), at::_efficientzerotensor({3}, torch::kFloat)}) {
    const at::Tensor form = host_form(tensor);
    EXPECT_TRUE(is_plain(form));
    EXPECT_TRUE(form.is_non_overlapping_and_dense());
    EXPECT_TRUE(form.equal(tensor.clone())) << form;
    EXPECT_EQ(fingerprint(tensor), fingerprint(form));
  }
  EXPECT_TRUE(host_form(x).is_same(x));
}

TEST(WriteBack, WritesValuesToEveryKindOfTensor) {
  const at::Tensor values = torch::arange(4, torch::kFloat);
  const at::Tensor memory = torch::ones({4, 4});
  at::Tensor inference;
  {
    const c10::InferenceMode guard;
    inference = torch::ones({4, 2}).select(1, 0);
  }
  const at::Tensor leaf = torch::ones({4}).requires_grad_(true);
  for (const at::Tensor& tensor : {memory.select(1, 0), torch::_neg_view(memory.select(0, 1)), inference, leaf}) {
    write_back(tensor, values);
    EXPECT_TRUE(tensor.detach().equal(values)) << tensor;
  }
  const auto version = values._version();
  write_back(values, values);
  EXPECT_EQ(values._version(), version + 1);
  write_back(inference, inference);
}

}  // namespace
}  // namespace kolo
