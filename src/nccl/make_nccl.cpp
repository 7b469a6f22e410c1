// From parts to a communicator: what ranks say of themselves, and whether they agree.
#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "base/strings.h"
#include "kolo/error.h"
#include "kolo/spi/communicator.h"
#include "nccl/environment.h"
#include "nccl/library.h"
#include "nccl/make.h"
#include "nccl/nccl_communicator.h"
#include "nccl/network.h"

namespace kolo::nccl {
namespace {

constexpr const char* kFastDevices = "sys/class/infiniband";
constexpr const char* kDescriptors = "proc/self/fd";
constexpr int kSharedCtas = 2;  // more of them could not all be on one device at the same time

// What must be equal on all ranks.
std::string options_text(const NcclParts& parts, const Environment& environment) {
  const std::string algorithm = value_of(environment, "NCCL_ALGO");
  return "max_ctas " + std::to_string(parts.max_ctas) + ", registration " + (parts.registers_buffers ? "on" : "off") +
         ", NCCL_ALGO " + (algorithm.empty() ? "not set" : algorithm) + ", size " + std::to_string(parts.size);
}

void add_device(RankFacts& facts, const NcclParts& parts) {
  const cuda::RuntimeApi& api = parts.runtime->api();
  std::array<char, 64> text{};
  parts.runtime->check(api.pci_bus_id(text.data(), static_cast<int>(text.size()), parts.device),
                       "cudaDeviceGetPCIBusId");
  facts.device = text.data();
}

void add_id(RankFacts& facts, const Library& library) {
  const Result result = library.api().unique_id(&facts.id);
  if (result == Result::success) return;
  facts.trouble = std::string("ncclGetUniqueId: ") + library.api().error_text(result);
}

// Whatever is wrong here is said to all, and found by all.
RankFacts facts_of(const NcclParts& parts, const Environment& environment) {
  RankFacts facts;
  facts.host = parts.host;
  facts.options = options_text(parts, environment);
  facts.trouble = blocking_trouble(environment);
  if (facts.trouble.empty() && parts.runtime == nullptr) facts.trouble = "no CUDA device";
  if (facts.trouble.empty() && parts.library == nullptr) facts.trouble = "no NCCL";
  if (!facts.trouble.empty()) return facts;
  try {
    facts.version = parts.library->version();
    facts.network = network_trouble(find_network(parts.system_root / kFastDevices), environment).value_or("");
    add_device(facts, parts);
    const cuda::DeviceGuard guard(*parts.runtime, parts.device);
    if (parts.rank == 0) add_id(facts, *parts.library);
  } catch (const Error& error) {
    facts.trouble = error.what();
  }
  return facts;
}

// Rank 0, once, when NCCL has chosen its network: what each host said beforehand, and what has come of it on this one.
void warn_of_sockets(const std::vector<RankFacts>& ranks, const NcclParts& parts, const Environment& environment) {
  if (parts.rank != 0) return;
  const bool one_host = std::ranges::all_of(ranks, [&](const RankFacts& each) { return each.host == ranks[0].host; });
  if (one_host) return;
  std::map<std::string, std::set<std::string>> hosts;  // by trouble
  for (const RankFacts& each : ranks) {
    if (!each.network.empty()) hosts[each.network].insert(each.host);
  }
  const int open = open_devices(parts.system_root / kDescriptors);
  const auto unused = unused_network(find_network(parts.system_root / kFastDevices), environment, open);
  if (unused.has_value()) hosts[*unused].insert(parts.host);
  for (const auto& [trouble, of] : hosts) {
    parts.log.warn((of.size() == 1 ? "host " : "hosts ") + base::join(of, ", ") +
                   (of.size() == 1 ? " has " : " have ") + trouble);
  }
}

}  // namespace

std::unique_ptr<Communicator> make_nccl(const NcclParts& parts) {
  const Environment environment = prepare_environment({parts.shared_device, parts.world_rank.value_or(parts.rank)});
  const std::vector<RankFacts> ranks = agree(parts.exchange, facts_of(parts, environment));
  if (ranks.size() != static_cast<std::size_t>(parts.size)) {
    throw UsageError("NCCL: setup data from " + std::to_string(ranks.size()) + " ranks in a group of " +
                     std::to_string(parts.size));
  }
  const cuda::DeviceGuard guard(*parts.runtime, parts.device);
  CommParts comm;
  comm.library = parts.library;
  comm.id = ranks[0].id;
  comm.rank = parts.rank;
  comm.size = parts.size;
  comm.world_rank = parts.world_rank;
  comm.max_ctas = parts.max_ctas != 0 || !parts.shared_device ? parts.max_ctas : kSharedCtas;
  comm.timeout = parts.timeout;
  comm.farewell = parts.farewell;
  comm.check_peers = parts.check_peers;
  comm.before_abort = parts.before_abort;
  comm.enter_thread = [runtime = parts.runtime, device = parts.device] { (void)runtime->api().set_device(device); };
  CommunicatorParts made;
  made.registers_buffers = parts.registers_buffers;
  made.group = std::make_shared<GroupState>(parts.runtime, parts.device, comm);
  warn_of_sockets(ranks, parts, environment);
  made.kernels = parts.kernels;
  return std::make_unique<NcclCommunicator>(made);
}

std::string describe(const Library& library, bool several_hosts) {
  return library.describe() +
         (several_hosts ? "; between hosts " +
                              network_text(find_network(std::filesystem::path("/") / kFastDevices), nccl_environment())
                        : "");
}

}  // namespace kolo::nccl
