#pragma once
// Every kernel once: KERNEL(name, what it takes). name_body is what one thread does; kolo_name is what the image and
// the launches call it. device_code.cu makes kernels of them, device_kernels.cpp the same for the host.
#include "kernels/adamw_body.h"
#include "kernels/find_nonfinite_body.h"
#include "kernels/images_body.h"
#include "kernels/pack_body.h"
#include "kernels/scale_body.h"
#include "kernels/sgd_body.h"

#define KOLO_DEVICE_KERNELS(KERNEL)              \
  KERNEL(pack, PackArguments)                    \
  KERNEL(unpack, PackArguments)                  \
  KERNEL(scale, ScaleArguments)                  \
  KERNEL(find_nonfinite, FindNonfiniteArguments) \
  KERNEL(sgd, SgdArguments)                      \
  KERNEL(adamw, AdamwArguments)                  \
  KERNEL(images, ImagesArguments)
