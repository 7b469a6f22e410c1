#pragma once
// Finds the newest complete checkpoint and loads it. Hosts that do not share the folder each have a part of it.
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kolo/checkpoint.h"
#include "kolo/context.h"
#include "torch/checkpoint_items.h"

namespace kolo {

// Entries of CheckpointInfo::metadata that a Checkpointer writes.
inline constexpr const char* kIdEntry = "kolo.id";        // equal in all parts of one checkpoint
inline constexpr const char* kPartEntry = "kolo.part";    // from 1
inline constexpr const char* kPartsEntry = "kolo.parts";  // folders that make up the checkpoint: one, or one per host

// "rank-00003.pt"
[[nodiscard]] std::string rank_file(int rank);

struct RestoredCheckpoint {
  std::int64_t step = 0;
  checkpoint::Metadata metadata;  // on rank 0
};

// Collective. Empty: there is none. `load_own`: gets the content of this rank's file; not called if there is none.
// Throws UsageError on all ranks if an object cannot be loaded.
[[nodiscard]] std::optional<RestoredCheckpoint> restore_checkpoint(
    Context& context, const std::filesystem::path& root, const std::vector<std::unique_ptr<CheckpointItem>>& items,
    const std::function<void(const std::string& content)>& load_own);

}  // namespace kolo
