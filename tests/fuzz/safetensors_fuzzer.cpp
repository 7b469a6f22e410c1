// Bytes that claim to be a safetensors file: refused with what is wrong, or tensors that tile the file's data without
// gaps, each as large as its shape and dtype say, in memory bounded by the file's size.
#include "fuzz/memory_meter.h"
#include "fuzz/property.h"
#include "kolo/checkpoint.h"
#include "kolo/error.h"

namespace {

using namespace kolo;

constexpr std::size_t kPerByte = 256;
constexpr std::size_t kFixed = 16384;

void claim_tensors(const checkpoint::SafetensorsFile& file, std::size_t size) {
  const std::byte* next = nullptr;
  std::size_t total = 0;
  for (const auto& tensor : file.tensors()) {
    std::size_t bytes = size_of(tensor.dtype);
    for (const auto extent : tensor.shape) {
      KOLO_CLAIM(extent >= 0);
      bytes *= static_cast<std::size_t>(extent);
    }
    KOLO_CLAIM(bytes == tensor.bytes.size());
    KOLO_CLAIM(next == nullptr || tensor.bytes.data() == next);
    next = tensor.bytes.data() + tensor.bytes.size();
    total += tensor.bytes.size();
    KOLO_CLAIM(file.contains(tensor.name) && file.at(tensor.name).bytes.data() == tensor.bytes.data());
  }
  KOLO_CLAIM(total <= size);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const fuzz::MemoryMeter meter;
  try {
    const checkpoint::SafetensorsFile file("input", {bytes.begin(), bytes.end()});
    claim_tensors(file, size);
  } catch (const BackendError& error) {
    KOLO_CLAIM(std::string(error.what()).starts_with("cannot read safetensors file input: "));
  }
  KOLO_CLAIM(meter.peak() <= kFixed + kPerByte * size);
  return 0;
}
