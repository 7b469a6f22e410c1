#include "runtime/lane_groups.h"

#include <algorithm>
#include <exception>

#include "base/fields.h"
#include "base/strings.h"
#include "device/staged_crossing.h"
#include "kolo/error.h"
#include "kolo/spi/communicator.h"

namespace kolo::runtime {
namespace {

struct Outcome {
  std::string host;
  std::string trouble;
};

// After what each group has done by itself: BackendError on all ranks for what went wrong on some.
void require_all(const nccl::NcclParts& world, const std::string& trouble) {
  std::vector<Outcome> ranks;
  for (const std::string& line : world.exchange(base::join_fields({world.host, trouble}))) {
    const auto fields = base::split_fields(line);
    if (fields.size() != 2)
      throw BackendError("NCCL: malformed report of a rank: '" + line +
                         "'. Do all ranks run the same version of kolo?");
    ranks.push_back({fields[0], fields[1]});
  }
  const std::string text = base::troubles_of(ranks);
  if (!text.empty()) throw BackendError("NCCL: communicators inside and between hosts: " + text);
}

// The world's exchange, of which the group sees its own part.
nccl::NcclParts parts_of(const nccl::NcclParts& world, std::span<const Rank> members) {
  nccl::NcclParts parts = world;
  parts.world_rank = world.rank;
  parts.size = static_cast<int>(members.size());
  parts.rank = static_cast<Rank>(std::ranges::find(members, world.rank) - members.begin());
  parts.exchange = [tell = world.exchange,
                    group = std::vector<Rank>(members.begin(), members.end())](const std::string& mine) {
    const auto all = tell(mine);
    std::vector<std::string> texts;
    for (const Rank rank : group) texts.push_back(all.at(static_cast<std::size_t>(rank)));
    return texts;
  };
  // One host's, or one share's, line stands for all.
  if (std::ranges::find(members, 0) == members.end()) parts.log = telemetry::Logger(LogLevel::error);
  return parts;
}

std::string network_text(Way way) {
  if (way == Way::memory) return "memory of this process";
  return way == Way::tcp ? "TCP" : "MPI";
}

}  // namespace

std::unique_ptr<Communicator> make_group(const nccl::NcclParts& world, std::span<const Rank> members) {
  std::unique_ptr<Communicator> made;
  std::string trouble;
  if (members.empty()) {
    (void)world.exchange({});
  } else {
    try {
      made = nccl::make_nccl(parts_of(world, members));  // exchanges once, whatever goes wrong
    } catch (const PeerLostError&) {
      throw;
    } catch (const Error& error) {
      trouble = error.what();
    }
  }
  require_all(world, trouble);
  return made;
}

std::string describe_steps(const Wires& wires, device::Route route) {
  const std::size_t shares = shares_of(wires.hosts);
  std::string text = "device gradients: in two steps: NCCL inside each of " + std::to_string(wires.hosts.size()) +
                     " hosts; between hosts " + base::counted(shares, "part") + " of each bucket, by ";
  if (route == device::Route::shares_by_devices) return text + "NCCL";
  return text + "the CPUs over " + network_text(wires.way) + ", through pinned memory in pieces of " +
         std::to_string(device::StagedCrossing::kPieceBytes >> 10) + " KiB";
}

}  // namespace kolo::runtime
