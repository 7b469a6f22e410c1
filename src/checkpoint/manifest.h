#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "kolo/checkpoint.h"

namespace kolo::checkpoint {

inline constexpr std::string_view kManifestName = "manifest.json";

// What manifest.json says about the files beside it.
struct Manifest {
  CheckpointInfo info;
  std::vector<WrittenFile> files;  // by name
};

// Reads and sums up every file of the folder. UsageError for folders inside it.
[[nodiscard]] Manifest describe_folder(const std::filesystem::path& folder, const CheckpointInfo& info);
[[nodiscard]] std::string to_json(const Manifest& manifest);
// `name`: of the text, for the error. BackendError when it is not exactly as to_json() made it.
[[nodiscard]] Manifest parse_manifest(std::string_view text, const std::string& name);
// The same from the folder's file. BackendError when it is missing or not exactly as to_json() made it.
[[nodiscard]] Manifest read_manifest(const std::filesystem::path& folder);

}  // namespace kolo::checkpoint
