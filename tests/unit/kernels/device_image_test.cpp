#include "kernels/device_image.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <string>

#include "support/built_file.h"

namespace kolo::kernels {
namespace {

// KOLO_DEVICE_IMAGE_FILE: what nvcc made, empty in a build without device code.
TEST(DeviceImage, IsInTheLibraryAsItWasMade) {
  const std::string path = test::built_file(KOLO_DEVICE_IMAGE_FILE);
  if (path.empty()) {
    EXPECT_EQ(device_image(), nullptr);
    return;
  }
  std::ifstream file(path, std::ios::binary);
  const std::string made{std::istreambuf_iterator<char>(file), {}};
  ASSERT_GT(made.size(), 16u) << path;
  ASSERT_NE(device_image(), nullptr);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(device_image()) % 16, 0u);
  EXPECT_EQ(std::memcmp(device_image(), made.data(), made.size()), 0);
}

}  // namespace
}  // namespace kolo::kernels
