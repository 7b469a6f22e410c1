#include "cluster/creation_notice.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <system_error>

#include "base/hash.h"
#include "base/strings.h"
#include "cluster/abstract_name.h"

namespace kolo::cluster {
namespace {

namespace fs = std::filesystem;

// The environment with which `process` (a folder of /proc) began; empty for a process of another user.
std::map<std::string, std::string> environment_of(const fs::path& process) {
  std::ifstream file(process / "environ", std::ios::binary);
  std::map<std::string, std::string> found;
  for (std::string entry; std::getline(file, entry, '\0');) {
    const std::size_t equals = entry.find('=');
    if (equals != std::string::npos) found.emplace(entry.substr(0, equals), entry.substr(equals + 1));
  }
  return found;
}

// An abstract name is seen within a network namespace only.
bool sees_the_same_names(const fs::path& process) {
  std::error_code error;
  const fs::path theirs = fs::read_symlink(process / "ns/net", error);
  return !error && theirs == fs::read_symlink("/proc/self/ns/net", error) && !error;
}

std::optional<Rank> rank_in(const std::string& job, const fs::path& process) {
  const auto environment = environment_of(process);
  const auto rank = launched_rank([&environment](const std::string& name) -> std::optional<std::string> {
    const auto found = environment.find(name);
    if (found == environment.end()) return std::nullopt;
    return found->second;
  });
  if (!rank || rank->job != job || !sees_the_same_names(process)) return std::nullopt;
  return rank->rank;
}

std::set<Rank> ranks_here(const std::string& job) {
  std::set<Rank> ranks;
  std::error_code error;
  for (fs::directory_iterator at("/proc", error), end; !error && at != end; at.increment(error)) {
    if (at->path().filename().string().find_first_not_of("0123456789") != std::string::npos) continue;
    if (const auto rank = rank_in(job, at->path())) ranks.insert(*rank);
  }
  return ranks;
}

std::string group_name(const LaunchedRank& mine, const std::vector<Rank>& members) {
  std::string text = mine.job;
  for (const Rank rank : members) text += " " + std::to_string(rank);
  return "kolo-create-" + std::to_string(geteuid()) + "-" + std::to_string(base::hash64(text)) + "-";
}

}  // namespace

CreationNotice::CreationNotice(std::optional<LaunchedRank> mine, std::vector<Rank> members)
    : mine_(std::move(mine)), members_(std::move(members)) {
  if (mine_ && mine_->of_one_rank) mine_.reset();  // its job's text tells nothing of other ranks
  if (!mine_) return;
  group_ = group_name(*mine_, members_);
  held_ = hold_name(name_of(mine_->rank));
}

std::string CreationNotice::name_of(Rank rank) const { return group_ + std::to_string(rank); }

std::vector<Rank> CreationNotice::missing() const {
  std::vector<Rank> missing;
  if (!held_) return missing;
  for (const Rank rank : ranks_here(mine_->job)) {
    const auto member = std::ranges::find(members_, rank);
    if ((!members_.empty() && member == members_.end()) || is_name_held(name_of(rank))) continue;
    missing.push_back(members_.empty() ? rank : static_cast<Rank>(member - members_.begin()));
  }
  std::ranges::sort(missing);
  return missing;
}

std::vector<Rank> CreationNotice::in_world(const std::vector<Rank>& ranks) const {
  std::vector<Rank> found;
  for (const Rank rank : ranks) found.push_back(members_[static_cast<std::size_t>(rank)]);
  return found;
}

std::string CreationNotice::describe_wait(const std::string& waited, const std::vector<Rank>& missing) const {
  std::string text = waited + (members_.empty() ? "Context::create()" : "Context::create_over()") + ": waiting for ";
  if (!missing.empty()) {
    text += base::ranks_text(missing);
    if (!members_.empty())
      text += " of the communicator (" + base::ranks_text(in_world(missing)) + " of MPI_COMM_WORLD)";
    text += missing.size() == 1 ? ", which has not called it" : ", which have not called it";
  } else if (held_) {
    text += "other ranks; no rank of this host is missing";
  } else {
    text += "other ranks; this launcher does not tell which";
  }
  if (!members_.empty()) return text + ". All ranks of the communicator must call it";
  return text +
         ". All ranks of MPI_COMM_WORLD must call it. If only some ranks use kolo, call Context::create_over() with a "
         "communicator of these ranks";
}

}  // namespace kolo::cluster
