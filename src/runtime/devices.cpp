#include "runtime/devices.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "device/solo_communicator.h"
#include "kernels/device_image.h"
#include "kolo/error.h"
#include "nccl/make.h"

namespace kolo::runtime {
namespace {

// A rank's text among the others', at a fixed length: by name they are all alike, and need no second round for lengths.
constexpr std::size_t kTextBytes = 4096;

// Everybody's text, over the engine's named channel.
std::vector<std::string> exchange(Engine& engine, const std::string& mine) {
  const auto text = std::make_shared<std::vector<char>>(kTextBytes, '\0');
  std::memcpy(text->data(), mine.data(), std::min(mine.size(), kTextBytes - 1));
  Request request;
  request.name = "kolo/devices";
  request.kind = RequestKind::allgather;
  request.dtype = DType::u8;
  request.sizes = {static_cast<std::int64_t>(kTextBytes)};
  request.input = text->data();
  request.keep = text;
  Work work = engine.submit(std::move(request));
  work.wait();
  std::vector<std::string> all;
  const auto bytes = work.result();
  for (std::size_t at = 0; at < bytes.size(); at += kTextBytes) {
    all.emplace_back(reinterpret_cast<const char*>(bytes.data()) + at);
  }
  return all;
}

std::unique_ptr<Communicator> make_communicator(const Devices& devices, int device, const std::string& trouble,
                                                const LaneWorld& world) {
  nccl::NcclParts parts;
  parts.rank = world.placement->rank;
  parts.size = world.placement->size;
  parts.host = world.placement->host;
  parts.exchange = [engine = world.engine](const std::string& mine) { return exchange(*engine, mine); };
  parts.runtime = devices.runtime;
  parts.trouble = trouble;
  parts.device = device;
  parts.shared_device = world.config->shared_device;
  parts.max_ctas = world.config->nccl_max_ctas;
  parts.timeout = world.config->timeout;
  parts.log = *world.logger;
  parts.kernels = devices.kernels;
  try {
    if (trouble.empty()) parts.library = devices.nccl();
  } catch (const Error& error) {
    parts.trouble = error.what();
  }
  return nccl::make_nccl(parts);
}

// Why `device` cannot be used here; empty: it can.
std::string trouble_with(const Devices& devices, int device) {
  const int count = devices.runtime->device_count();
  if (device < count) return {};
  return "there is no device " + std::to_string(device) + "; " + devices.runtime->describe();
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
  Devices devices;
  std::string trouble;
  try {
    devices = find();
    trouble = trouble_with(devices, device);
  } catch (const Error& error) {
    trouble = error.what();
  }
  const bool alone = world.placement->size == 1;
  if (alone && !trouble.empty()) throw UsageError(trouble);
  auto communicator = alone ? device::make_solo(devices.runtime, device)
                            : make_communicator(devices, device, trouble, world);  // tells the peers of the trouble
  return std::make_unique<device::Lane>(
      device::LaneParts{devices.runtime, device, devices.kernels, std::move(communicator)});
}

}  // namespace kolo::runtime
