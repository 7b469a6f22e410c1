#include <ATen/ops/zeros.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>

#include "kolo/context.h"
#include "kolo/error.h"
#include "kolo/spi/communicator.h"
#include "kolo/torch/cuda.h"
#include "torch/load_cuda.h"

namespace kolo {
namespace {

// Between ranks a claim is a letter, T or G, and its text.
std::vector<GpuClaim> exchange(Context& context, const GpuClaim& mine) {
  const bool trouble = !mine.trouble.empty();
  std::vector<GpuClaim> claims;
  for (const auto& text : gather_texts(context, "use_cuda", (trouble ? "T" + mine.trouble : "G" + mine.gpu))) {
    GpuClaim claim;
    (text.front() == 'T' ? claim.trouble : claim.gpu) = text.substr(1);
    claims.push_back(std::move(claim));
  }
  return claims;
}

std::string text_of(const std::string& address, const Placement& placement) {
  return address + " of host " + std::to_string(placement.cross_rank) + " (" + placement.host + ")";
}

c10::Device gpu_device(int gpu) { return {c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(gpu)}; }

// Makes it the current one, and something on it: a GPU that is taken by others, full or broken says so only then.
void use(const c10::Device& device) {
  c10::impl::VirtualGuardImpl(device.type()).setDevice(device);
  static_cast<void>(at::zeros({1}, c10::TensorOptions().device(device)));
}

}  // namespace

c10::Device use_cuda(Context& context) {
  static_cast<void>(context.communicator());  // after shutdown() it throws, before anything is loaded
  const Placement& placement = context.placement();
  GpuClaim claim;
  int gpu = 0;
  try {
    const auto addresses = load_cuda(usual_cuda_files());
    gpu = placement.device % static_cast<int>(addresses.size());
    use(gpu_device(gpu));
    if (!context.config().shared_device) claim.gpu = text_of(addresses[static_cast<std::size_t>(gpu)], placement);
  } catch (const c10::Error& error) {  // of a GPU that is there and cannot be used
    claim.trouble = error.what_without_backtrace();
  } catch (const std::exception& error) {
    claim.trouble = error.what();
  }
  const auto trouble = trouble_of(exchange(context, claim));
  if (!trouble.empty()) throw UsageError("no CUDA device: " + trouble);
  return gpu_device(gpu);
}

}  // namespace kolo
