// From parts to a communicator: what ranks say of themselves, whether they agree, what is said to the user.
#include <algorithm>
#include <array>
#include <map>

#include "kolo/error.h"
#include "nccl/environment.h"
#include "nccl/library.h"
#include "nccl/make.h"
#include "nccl/nccl_communicator.h"
#include "nccl/network.h"

namespace kolo::nccl {
namespace {

constexpr int kSharedCtas = 2;  // more of them could not all be on one device at the same time

std::string options_text(const NcclParts& parts) {
  return "max_ctas " + std::to_string(parts.max_ctas) + ", algorithm " +
         std::to_string(static_cast<int>(parts.algorithm)) + ", size " + std::to_string(parts.size);
}

void add_device(RankFacts& facts, const NcclParts& parts) {
  const cuda::RuntimeApi& api = parts.runtime->api();
  std::array<char, 64> text{};
  parts.runtime->check(api.pci_bus_id(text.data(), static_cast<int>(text.size()), parts.device),
                       "cudaDeviceGetPCIBusId");
  facts.device = text.data();
  parts.runtime->check(api.runtime_version(&facts.runtime), "cudaRuntimeGetVersion");
  parts.runtime->check(api.driver_version(&facts.driver), "cudaDriverGetVersion");
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
  facts.options = options_text(parts);
  if (parts.runtime == nullptr) facts.trouble = "no CUDA device";
  if (facts.trouble.empty() && parts.library == nullptr) facts.trouble = "no NCCL";
  if (!facts.trouble.empty()) return facts;
  try {
    facts.version = parts.library->version();
    facts.chooses = has_our_tuner(environment, facts.version);
    add_device(facts, parts);
    const cuda::DeviceGuard guard(*parts.runtime, parts.device);
    if (parts.rank == 0) add_id(facts, *parts.library);
  } catch (const Error& error) {
    facts.trouble = error.what();
  }
  return facts;
}

std::string start_line(const std::vector<RankFacts>& ranks, const NcclParts& parts, const std::string& network) {
  std::map<std::string, std::string> hosts;
  for (const RankFacts& each : ranks) {
    std::string& devices = hosts[each.host];
    devices += (devices.empty() ? "" : " ") + each.device;
  }
  std::string text = parts.library->describe() + ", CUDA " + cuda::version_text(ranks[0].runtime) +
                     " on a driver for " + cuda::version_text(ranks[0].driver) + "; " + std::to_string(ranks.size()) +
                     " ranks:";
  for (const auto& [host, devices] : hosts) text += " " + host + " (" + devices + ")";
  return text + "; between hosts " + network;
}

void tell(const std::vector<RankFacts>& ranks, const NcclParts& parts, const Environment& environment) {
  const FastNetwork network = find_network();
  const bool one_host =
      std::all_of(ranks.begin(), ranks.end(), [&](const RankFacts& each) { return each.host == ranks[0].host; });
  if (parts.rank == 0) {
    parts.log.info(start_line(ranks, parts, one_host ? "nothing" : network_text(network, environment)));
  }
  if (one_host) return;
  const auto warning = network_warning(network, environment);
  if (warning.has_value()) parts.log.warn(*warning);
}

}  // namespace

std::unique_ptr<Communicator> make_nccl(const NcclParts& parts) {
  const Environment environment = prepare_environment(parts.shared_device, parts.rank);
  const std::vector<RankFacts> ranks = agree(parts.exchange, facts_of(parts, environment));
  if (ranks.size() != static_cast<std::size_t>(parts.size)) {
    throw UsageError("NCCL: " + std::to_string(ranks.size()) + " ranks have spoken in a group of " +
                     std::to_string(parts.size));
  }
  tell(ranks, parts, environment);
  const cuda::DeviceGuard guard(*parts.runtime, parts.device);
  CommParts comm;
  comm.library = parts.library;
  comm.id = ranks[0].id;
  comm.rank = parts.rank;
  comm.size = parts.size;
  comm.max_ctas = parts.max_ctas != 0 || !parts.shared_device ? parts.max_ctas : kSharedCtas;
  comm.timeout = parts.timeout;
  comm.farewell = parts.farewell;
  CommunicatorParts made;
  made.group = std::make_shared<GroupState>(parts.runtime, parts.device, comm);
  made.algorithm = parts.algorithm;
  made.chooses = std::all_of(ranks.begin(), ranks.end(), [](const RankFacts& each) { return each.chooses; });
  made.kernels = parts.kernels;
  return std::make_unique<NcclCommunicator>(made);
}

std::string describe_nccl() {
  try {
    return load_library()->describe();
  } catch (const BackendError& error) {
    return error.what();
  }
}

}  // namespace kolo::nccl
