// Bytes that claim to be a checkpoint's manifest.json: refused, or a description that is written and read back the same
// and that names nothing outside its folder. The first byte says whether the manifest's own checksum is put right
// first, without which hardly any change would get past it.
#include <nlohmann/json.hpp>

#include "base/hash.h"
#include "checkpoint/manifest.h"
#include "fuzz/memory_meter.h"
#include "fuzz/property.h"
#include "kolo/error.h"

namespace {

using namespace kolo;
using namespace kolo::checkpoint;

constexpr std::size_t kPerByte = 512;
constexpr std::size_t kFixed = 16384;

std::string with_checksum(const std::string& text) {
  auto document = nlohmann::json::parse(text, nullptr, false);
  if (!document.is_object()) return text;
  document.erase("checksum");
  std::string body;
  try {
    body = document.dump();
  } catch (const nlohmann::json::exception&) {
    return text;
  }
  std::string digits(16, '0');
  std::snprintf(digits.data(), digits.size() + 1, "%016llx",
                static_cast<unsigned long long>(base::hash64(std::string_view(body))));
  document["checksum"] = digits;
  return document.dump();
}

bool nested_too_deep(const std::string& text) {  // for with_checksum(), whose library would overflow the stack
  int depth = 0;
  for (const char character : text) depth += character == '[' || character == '{' ? 1 : 0;
  return depth > 1000;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  std::string text(data + 1, data + size);
  if (data[0] % 2 == 1 && !nested_too_deep(text)) text = with_checksum(text);
  const fuzz::MemoryMeter meter;
  Manifest manifest;
  try {
    manifest = parse_manifest(text, "input");
  } catch (const BackendError& error) {
    KOLO_CLAIM(std::string(error.what()).starts_with("input is damaged: "));
    KOLO_CLAIM(meter.peak() <= kFixed + kPerByte * size);
    return 0;
  }
  KOLO_CLAIM(meter.peak() <= kFixed + kPerByte * size);
  for (const auto& file : manifest.files) {
    KOLO_CLAIM(!file.name.empty() && file.name.find('/') == std::string::npos && file.name != "." && file.name != "..");
  }
  const auto again = to_json(manifest);
  KOLO_CLAIM(to_json(parse_manifest(again, "again")) == again);
  return 0;
}
