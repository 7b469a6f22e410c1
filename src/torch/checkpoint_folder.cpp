#include "torch/checkpoint_folder.h"

#include <algorithm>
#include <random>
#include <sstream>
#include <system_error>
#include <utility>

#include "kolo/error.h"
#include "torch/agree_on_call.h"
#include "torch/failure_text.h"

namespace kolo {
namespace {

constexpr const char* kCall = "Checkpointer";
constexpr std::chrono::seconds kLockWait{61};  // a job that was killed on another host holds the lock for a minute

std::string random_text() {
  std::random_device device;
  std::ostringstream text;
  text << std::hex << device() << device();
  return text.str();
}

}  // namespace

// Rank 0 writes a file. Hosts on which it is missing have a folder of their own.
CheckpointFolder::CheckpointFolder(Context& context, std::filesystem::path root,
                                   const checkpoint::CheckpointOptions& options)
    : root_(std::move(root)), host_(context.placement().cross_rank), hosts_(context.placement().cross_size) {
  std::string notice;
  const bool first = context.rank() == 0;
  agree_on_call(context, kCall, "", failure_of([&] {
                  directory_ = std::make_shared<checkpoint::CheckpointDirectory>(root_, options);
                  if (first) notice = directory_->lock(kLockWait);
                }));
  run_ = gather_texts(context, "Checkpointer: run", first ? random_text() : "").front();
  look_for_shared_file(context);
  publishes_ = shared_ ? first : context.placement().local_rank == 0;
  agree_on_call(context, kCall, "", failure_of([&] {
                  if (publishes_ && !first) notice = directory_->lock(kLockWait);
                }));
  if (!notice.empty()) context.log(LogLevel::warn, "checkpoint: " + notice);
}

// The first rank of each host also finds out whether it may write.
void CheckpointFolder::look_for_shared_file(Context& context) {
  const Placement& place = context.placement();
  // lock() deletes files of a run that has crashed.
  const std::string prefix = (root_ / (".tmp-shared-" + run_ + "-")).string();
  const auto write = [&] { (void)checkpoint::write_file(prefix + std::to_string(host_), std::string_view()); };
  agree_on_call(context, kCall, "", failure_of([&] {
                  if (place.rank == 0) write();
                }));
  std::error_code ignored;
  const bool sees = place.local_rank != 0 || std::filesystem::exists(prefix + "0", ignored);
  const auto blind = gather_texts(context, "Checkpointer: shared folder", sees ? "" : place.host);
  agree_on_call(context, kCall, "", failure_of([&] {
                  if (place.local_rank == 0 && place.rank != 0 && sees) write();
                }));
  if (place.local_rank == 0 && sees) std::filesystem::remove(prefix + std::to_string(host_), ignored);
  const auto is_blind = [](const std::string& host) { return !host.empty(); };
  const auto count = std::count_if(blind.begin(), blind.end(), is_blind);
  shared_ = count == 0;
  if (shared_ || count == hosts_ - 1) return;
  throw UsageError("Checkpointer: " + root_.string() + " is shared by some hosts, but not by host " +
                   *std::find_if(blind.begin(), blind.end(), is_blind) +
                   ". Use a folder that all hosts share, or one that is local on each");
}

}  // namespace kolo
