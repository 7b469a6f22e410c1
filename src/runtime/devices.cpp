#include "runtime/devices.h"

#include <chrono>
#include <exception>
#include <sstream>
#include <utility>

#include "cuda/identity.h"
#include "device/solo_communicator.h"
#include "kernels/device_image.h"
#include "kernels/try_out.h"
#include "kolo/error.h"
#include "kolo/spi/communicator.h"
#include "kolo/spi/engine.h"
#include "nccl/make.h"
#include "runtime/device_agreement.h"
#include "runtime/lane_groups.h"
#include "runtime/start_line.h"

namespace kolo::runtime {
namespace {

// One line to all; everybody's comes back. Over the engine's named channel. A line has no end in it, and so needs no
// length.
std::vector<std::string> tell_all(Engine& engine, const std::string& mine) {
  const auto line = std::make_shared<const std::string>(mine + '\n');
  Request request;
  request.name = "kolo/devices";
  request.kind = RequestKind::allgather;
  request.dtype = DType::u8;
  request.sizes = {static_cast<std::int64_t>(line->size())};
  request.input = line->data();
  request.keep = line;
  Work work = engine.submit_internal(std::move(request));
  work.wait();
  const auto bytes = work.result();
  std::istringstream lines(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  std::vector<std::string> all;
  for (std::string each; std::getline(lines, each);) all.push_back(each);
  return all;
}

// One rank's device, and what there is for it.
struct Found {
  Devices devices;
  nccl::LibraryPtr nccl;
  std::shared_ptr<cuda::HostWord> given_up;  // of NCCL's collectives, see LaneParts
  DeviceFacts facts;
};

void find_device(Found& found, const FindDevices& find, int device, std::chrono::milliseconds timeout) {
  try {
    found.devices = find();
    const cuda::Runtime& runtime = *found.devices.runtime;
    if (device < runtime.device_count()) {
      const cuda::Identity identity = cuda::identity_of(runtime, device);
      found.facts.device = identity.address;
      found.facts.uuid = identity.uuid;
      found.facts.name = identity.name;
      found.facts.memory = identity.memory;
      kernels::try_out(found.devices.runtime, *found.devices.kernels, device, timeout);
    } else {
      found.facts.trouble = "there is no device " + std::to_string(device) + "; " + runtime.describe();
    }
  } catch (const std::exception& error) {
    found.facts.trouble = error.what();
  }
}

void find_nccl(Found& found, int device) {
  if (!found.facts.trouble.empty() || found.facts.reduction == DeviceReduction::host) return;
  try {
    found.nccl = found.devices.nccl();
    found.given_up = std::make_shared<cuda::HostWord>(found.devices.runtime, device);
  } catch (const std::exception& error) {
    found.facts.no_nccl = error.what();
  }
}

nccl::NcclParts nccl_parts(const Found& found, int device, const LaneWorld& world) {
  nccl::NcclParts parts;
  parts.rank = world.placement->rank;
  parts.size = world.placement->size;
  parts.host = world.placement->host;
  parts.exchange = [engine = world.engine](const std::string& mine) { return tell_all(*engine, mine); };
  parts.runtime = found.devices.runtime;
  parts.library = found.nccl;
  parts.device = device;
  parts.shared_device = world.config->shared_device;
  parts.max_ctas = world.config->nccl_max_ctas;
  parts.registers_buffers = world.config->nccl_registration;
  parts.check_peers = world.check_peers;
  parts.before_abort = [given_up = found.given_up] { given_up->set(); };
  parts.timeout = world.config->timeout;
  parts.log = *world.logger;
  parts.kernels = found.devices.kernels;
  return parts;
}

// How this rank's device reaches all others.
struct Reach {
  device::Route route = device::Route::devices;
  std::unique_ptr<Communicator> communicator;
  device::LaneShares shares;
};

// Where it makes a difference: in one step else.
bool in_two_steps(DeviceReduction reduction, const Hosts& hosts) {
  if (hosts.size() < 2) return false;
  return reduction == DeviceReduction::mixed ||
         (reduction == DeviceReduction::hierarchical && some_host_has_several(hosts));
}

Reach reach_in_two_steps(const Found& found, int device, const LaneWorld& world) {
  const Hosts& hosts = world.wires->hosts;
  nccl::NcclParts parts = nccl_parts(found, device, world);
  const bool by_devices = world.config->device_reduction == DeviceReduction::hierarchical;
  Reach reach;
  reach.route = by_devices ? device::Route::shares_by_devices : device::Route::shares_by_hosts;
  reach.communicator = some_host_has_several(hosts)
                           ? make_group(parts, hosts[static_cast<std::size_t>(world.placement->cross_rank)])
                           : device::make_solo(found.devices.runtime, device);
  reach.shares.count = shares_of(hosts);
  reach.shares.ranks = share_ranks(hosts, parts.rank);
  reach.shares.between_hosts = world.between_hosts;
  if (by_devices) reach.shares.across = make_group(parts, reach.shares.ranks);
  if (parts.rank == 0) world.logger->info(describe_steps(*world.wires, reach.route));
  return reach;
}

std::vector<DeviceFacts> ask_peers(Found& found, int device, const LaneWorld& world) {
  find_nccl(found, device);
  std::vector<DeviceFacts> ranks;
  for (const std::string& line : tell_all(*world.engine, encode(found.facts))) ranks.push_back(decode(line));
  return ranks;
}

// With peers: what is wrong at one of them is the same error here.
Reach reach_peers(const Found& found, int device, const LaneWorld& world, const std::vector<DeviceFacts>& ranks) {
  const DeviceAgreement agreement = agree_on_devices(ranks);
  if (!agreement.warning.empty() && world.placement->rank == 0) world.logger->warn(agreement.warning);
  Reach reach;
  if (!agreement.by_nccl) {
    reach.route = device::Route::hosts;
    reach.communicator = device::make_solo(found.devices.runtime, device);
    return reach;
  }
  if (world.wires != nullptr && in_two_steps(found.facts.reduction, world.wires->hosts)) {
    return reach_in_two_steps(found, device, world);
  }
  reach.communicator = nccl::make_nccl(nccl_parts(found, device, world));
  return reach;
}

// One line a host. A device that does not say what it is is no reason to fail.
void introduce(const Found& found, device::Route route, const LaneWorld& world, const std::vector<DeviceFacts>& ranks) {
  if (world.placement->local_rank != 0) return;
  std::string reduction = "reduced on the CPUs";
  if (ranks.size() == 1) {
    reduction = "one rank: no reduction";
  } else if (route != device::Route::hosts) {
    reduction = nccl::describe(*found.nccl, world.placement->cross_size > 1);
  }
  try {
    world.logger->info(start_line(ranks, world.placement->cross_rank, *found.devices.runtime, reduction));
  } catch (const BackendError& error) {
    world.logger->warn(std::string("devices: no description: ") + error.what());
  }
}

}  // namespace

Devices load_devices() {
  Devices devices;
  devices.runtime = cuda::load_runtime();
  devices.kernels = std::make_shared<cuda::KernelImage>(devices.runtime, kernels::device_image());
  devices.nccl = [] { return nccl::load_library(); };
  return devices;
}

std::unique_ptr<device::Lane> make_lane(const FindDevices& find, int device, const LaneWorld& world) {
  Found found;
  found.facts.host = world.placement->host;
  found.facts.host_number = world.placement->cross_rank;
  found.facts.shares = world.config->shared_device;
  found.facts.reduction = world.config->device_reduction;
  find_device(found, find, device, world.config->timeout);
  const bool alone = world.placement->size == 1;
  if (alone && !found.facts.trouble.empty()) throw UsageError(found.facts.trouble);
  Reach reach;
  std::vector<DeviceFacts> ranks{found.facts};
  if (alone) {
    reach.communicator = device::make_solo(found.devices.runtime, device);
  } else {
    ranks = ask_peers(found, device, world);
    reach = reach_peers(found, device, world, ranks);
  }
  introduce(found, reach.route, world, ranks);
  device::LaneParts parts;
  parts.runtime = found.devices.runtime;
  parts.device = device;
  parts.kernels = found.devices.kernels;
  parts.communicator = std::move(reach.communicator);
  parts.priority =
      world.config->stream_priority == StreamPriority::high ? cuda::Priority::high : cuda::Priority::normal;
  parts.route = reach.route;
  parts.shares = std::move(reach.shares);
  parts.gives_turns = world.placement->rank == 0;
  parts.given_up = found.given_up;
  return std::make_unique<device::Lane>(std::move(parts));
}

}  // namespace kolo::runtime
