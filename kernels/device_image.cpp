// Puts the fatbin that nvcc made of device_code.cu into the library as it is. KOLO_DEVICE_IMAGE_FILE: its path.
#include "kernels/device_image.h"

asm(".pushsection .rodata\n"
    ".balign 64\n"
    ".hidden kolo_device_image_bytes\n"
    ".globl kolo_device_image_bytes\n"
    "kolo_device_image_bytes:\n"
    ".incbin \"" KOLO_DEVICE_IMAGE_FILE
    "\"\n"
    ".popsection\n");

extern "C" __attribute__((visibility("hidden"))) const unsigned char kolo_device_image_bytes[];

namespace kolo::kernels {

const void* device_image() noexcept { return kolo_device_image_bytes; }

}  // namespace kolo::kernels
