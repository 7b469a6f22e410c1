#include "runtime/devices.h"

#include <array>
#include <exception>
#include <sstream>
#include <utility>

#include "device/solo_communicator.h"
#include "kernels/device_image.h"
#include "kolo/error.h"
#include "nccl/make.h"
#include "runtime/device_agreement.h"

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
  Work work = engine.submit(std::move(request));
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
  DeviceFacts facts;
};

std::string address_of(const cuda::Runtime& runtime, int device) {
  std::array<char, 64> text{};
  runtime.check(runtime.api().pci_bus_id(text.data(), static_cast<int>(text.size()), device), "cudaDeviceGetPCIBusId");
  return text.data();
}

void find_device(Found& found, const FindDevices& find, int device) {
  try {
    found.devices = find();
    const cuda::Runtime& runtime = *found.devices.runtime;
    if (device < runtime.device_count()) {
      found.facts.device = address_of(runtime, device);
    } else {
      found.facts.trouble = "there is no device " + std::to_string(device) + "; " + runtime.describe();
    }
  } catch (const std::exception& error) {
    found.facts.trouble = error.what();
  }
}

void find_nccl(Found& found) {
  if (!found.facts.trouble.empty() || found.facts.reduction == DeviceReduction::host) return;
  try {
    found.nccl = found.devices.nccl();
  } catch (const std::exception& error) {
    found.facts.no_nccl = error.what();
  }
}

std::unique_ptr<Communicator> make_over_nccl(const Found& found, int device, const LaneWorld& world) {
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
  parts.timeout = world.config->timeout;
  parts.log = *world.logger;
  parts.kernels = found.devices.kernels;
  return nccl::make_nccl(parts);
}

// With peers: what is wrong at one of them is the same error here.
std::unique_ptr<Communicator> make_communicator(Found& found, int device, const LaneWorld& world) {
  find_nccl(found);
  std::vector<DeviceFacts> ranks;
  for (const std::string& line : tell_all(*world.engine, encode(found.facts))) ranks.push_back(decode(line));
  const DeviceAgreement agreement = agree_on_devices(ranks);
  if (!agreement.warning.empty() && world.placement->rank == 0) world.logger->warn(agreement.warning);
  return agreement.by_nccl ? make_over_nccl(found, device, world) : device::make_solo(found.devices.runtime, device);
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
  found.facts.shares = world.config->shared_device;
  found.facts.reduction = world.config->device_reduction;
  find_device(found, find, device);
  const bool alone = world.placement->size == 1;
  if (alone && !found.facts.trouble.empty()) throw UsageError(found.facts.trouble);
  auto communicator =
      alone ? device::make_solo(found.devices.runtime, device) : make_communicator(found, device, world);
  return std::make_unique<device::Lane>(
      device::LaneParts{found.devices.runtime, device, found.devices.kernels, std::move(communicator)});
}

}  // namespace kolo::runtime
