#pragma once
// Which memory each kernel of device_kernel_list.h touches, for who watches that launches are ordered.
#include <vector>

#include "kernels/adamw_arguments.h"
#include "kernels/device_kernels.h"
#include "kernels/find_nonfinite_arguments.h"
#include "kernels/images_arguments.h"
#include "kernels/pack_arguments.h"
#include "kernels/scale_arguments.h"
#include "kernels/sgd_arguments.h"

namespace kolo::kernels {

[[nodiscard]] std::vector<Touched> pack_touches(const PackArguments& arguments);
[[nodiscard]] std::vector<Touched> unpack_touches(const PackArguments& arguments);
[[nodiscard]] std::vector<Touched> scale_touches(const ScaleArguments& arguments);
[[nodiscard]] std::vector<Touched> find_nonfinite_touches(const FindNonfiniteArguments& arguments);
[[nodiscard]] std::vector<Touched> sgd_touches(const SgdArguments& arguments);
[[nodiscard]] std::vector<Touched> adamw_touches(const AdamwArguments& arguments);
[[nodiscard]] std::vector<Touched> images_touches(const ImagesArguments& arguments);

}  // namespace kolo::kernels
