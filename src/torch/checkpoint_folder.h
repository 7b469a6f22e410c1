#pragma once
// The folder of a Checkpointer: one that all hosts see, or one on each host.
//
//   shared      rank 0 locks it and publishes checkpoints
//   not shared  the first rank of each host does so, and a checkpoint has a part on each host
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "kolo/checkpoint.h"
#include "kolo/context.h"

namespace kolo {

class CheckpointFolder {
 public:
  // Collective. Finds out whether the folder is shared, and locks it. Throws UsageError on all ranks.
  CheckpointFolder(Context& context, std::filesystem::path root, const checkpoint::CheckpointOptions& options);

  [[nodiscard]] const std::filesystem::path& root() const noexcept { return root_; }
  // Jobs that may outlive this object own it too.
  [[nodiscard]] const std::shared_ptr<checkpoint::CheckpointDirectory>& directory() const noexcept {
    return directory_;
  }
  // True if this rank commits and prunes in its folder.
  [[nodiscard]] bool publishes() const noexcept { return publishes_; }
  // True if this rank's folder is also that of a rank on `host` (Placement::cross_rank).
  [[nodiscard]] bool holds_files_of(int host) const noexcept { return shared_ || host == host_; }
  [[nodiscard]] int part() const noexcept { return shared_ ? 1 : host_ + 1; }
  [[nodiscard]] int parts() const noexcept { return shared_ ? 1 : hosts_; }
  // Another one for each run: ids of checkpoints begin with it. Equal on all ranks.
  [[nodiscard]] const std::string& run() const noexcept { return run_; }

 private:
  void look_for_shared_file(Context& context);

  std::filesystem::path root_;
  std::shared_ptr<checkpoint::CheckpointDirectory> directory_;
  std::string run_;
  int host_ = 0;
  int hosts_ = 1;
  bool shared_ = true;
  bool publishes_ = false;
};

}  // namespace kolo
