// Bytes that claim to be a control message: refused, or read into values whose bytes are read into the same values, in
// memory that grows no faster than the bytes.
#include "engine/codec.h"
#include "engine/message_check.h"
#include "fuzz/memory_meter.h"
#include "fuzz/property.h"

namespace {

using namespace kolo;
using namespace kolo::engine;

// The most memory for a byte: two bytes make an empty Entry, and a vector that grows holds up to three Entry objects
// for each.
constexpr std::size_t kPerByte = 1024;
constexpr std::size_t kFixed = 4096;

constexpr Tree kMiddle{1, 7};

bool in_world(const std::vector<Rank>& ranks) {
  for (const Rank rank : ranks) {
    if (rank < 0 || rank >= kMiddle.size) return false;
  }
  return true;
}

// What the rest of the engine takes for granted once check() has let a message pass.
void claim_limits(const Envelope& envelope) {
  for (const auto& entry : envelope.entries) {
    KOLO_CLAIM(!entry.name.empty() && in_world({entry.rank}) && in_world(entry.ranks) && in_world(entry.failed_ranks));
    KOLO_CLAIM(entry.ranks.size() == entry.bytes.size());
    KOLO_CLAIM(!entry.conflict || in_world({entry.conflict->first_rank, entry.conflict->second_rank}));
  }
  for (const auto& item : envelope.items) {
    KOLO_CLAIM(!item.names.empty() && in_world(item.failed_ranks));
    KOLO_CLAIM(item.bytes.empty() || item.bytes.size() == static_cast<std::size_t>(kMiddle.size));
  }
  for (const auto& report : envelope.reports) KOLO_CLAIM(!report.name.empty() && in_world(report.missing));
  KOLO_CLAIM(!envelope.failure || (!envelope.failure->ranks.empty() && in_world(envelope.failure->ranks)));
  KOLO_CLAIM(envelope.items.empty() || envelope.entries.empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  Envelope envelope;
  const fuzz::MemoryMeter meter;
  try {
    envelope = decode(bytes);
  } catch (const DamagedMessage&) {
    KOLO_CLAIM(meter.peak() <= kFixed + kPerByte * size);
    return 0;
  }
  KOLO_CLAIM(meter.peak() <= kFixed + kPerByte * size);
  KOLO_CLAIM(meter.peak() >= envelope.entries.size() * sizeof(Entry));  // the meter measures
  const auto again = encode(envelope);
  KOLO_CLAIM(encode(decode(again)) == again);
  for (const Rank from : {0, 3}) {
    try {
      check(envelope, kMiddle, from);
    } catch (const DamagedMessage&) {
      continue;
    }
    claim_limits(envelope);
  }
  return 0;
}
