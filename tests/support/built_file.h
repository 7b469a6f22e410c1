#pragma once
// What the build has made for a test besides its program.
#include <cstdlib>
#include <filesystem>
#include <string>

namespace kolo::test {

// Where it was made; or, for programs that were taken elsewhere, what has its name in the folder KOLO_TEST_FILES.
inline std::string built_file(const std::filesystem::path& made) {
  const char* const folder = std::getenv("KOLO_TEST_FILES");
  return folder == nullptr || made.empty() ? made.string() : (folder / made.filename()).string();
}

}  // namespace kolo::test
