#include "torch/fingerprint.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "torch/torch_device.h"

namespace kolo {

std::uint64_t fingerprint(std::string_view bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

std::uint64_t fingerprint(const at::Tensor& tensor) {
  const at::Tensor dense = host_form(tensor);
  return fingerprint(std::string_view(static_cast<const char*>(dense.const_data_ptr()), dense.nbytes()));
}

}  // namespace kolo
