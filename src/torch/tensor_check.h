#pragma once
// Which tensors kolo takes. Every public function that is given tensors asks here before it changes anything.
#include <ATen/core/Tensor.h>

#include <string>

namespace kolo {

enum class Access { read, write };  // write: results go into the tensor

// Why kolo cannot take the tensor, to follow its name: "is sparse; ...". Empty: it can. Lazily negated tensors, gaps
// between the elements, and inference tensors are taken (host_form(), write_back()); if they are only read, so are
// tensors whose elements overlap.
[[nodiscard]] std::string trouble_with(const at::Tensor& tensor, Access access);
// The same for an operation that autograd would have to differentiate, and kolo does not.
[[nodiscard]] std::string trouble_with_graph(const at::Tensor& tensor);
// False only if no two elements of a strided tensor share a byte. True for some exotic tensors whose elements
// interleave without overlap.
[[nodiscard]] bool may_overlap(const at::Tensor& tensor);

}  // namespace kolo
