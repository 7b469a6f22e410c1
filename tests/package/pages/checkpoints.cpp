// The example of docs/checkpoints.md.
#include "kolo/checkpoint.h"

#include <filesystem>
#include <optional>
#include <span>

namespace checkpoints_page {

namespace checkpoint = kolo::checkpoint;

// On rank 0.
void save(std::span<const checkpoint::TensorView> tensors, std::int64_t step) {
  checkpoint::CheckpointDirectory directory("run/checkpoints");
  checkpoint::CheckpointInfo info;
  info.step = step;
  directory.save(info, [&](const std::filesystem::path& folder) {
    checkpoint::write_safetensors(folder / "model.safetensors", tensors, {{"format", "pt"}});
  });
}

// On any rank.
std::optional<checkpoint::SafetensorsFile> load() {
  const auto newest = checkpoint::CheckpointDirectory("run/checkpoints").latest();
  if (!newest) return std::nullopt;
  return checkpoint::SafetensorsFile(newest->folder / "model.safetensors");
}

}  // namespace checkpoints_page
