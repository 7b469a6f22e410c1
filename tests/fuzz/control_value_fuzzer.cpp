// Values of every field: what is encoded is what is decoded.
#include <bit>

#include "engine/codec.h"
#include "fuzz/envelopes.h"
#include "fuzz/property.h"

namespace {

using namespace kolo::engine;

// As ==, but a scale that is not a number equals itself.
bool same(double a, double b) { return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b); }

bool same(Signature a, Signature b) {
  if (!same(a.prescale, b.prescale) || !same(a.postscale, b.postscale)) return false;
  a.prescale = b.prescale = a.postscale = b.postscale = 1;
  return a == b;
}

bool same(const std::optional<Conflict>& a, const std::optional<Conflict>& b) {
  if (a.has_value() != b.has_value()) return false;
  return !a || (same(a->first, b->first) && same(a->second, b->second) && a->first_rank == b->first_rank &&
                a->second_rank == b->second_rank);
}

bool same(const Entry& a, const Entry& b) {
  return a.name == b.name && same(a.signature, b.signature) && a.rank == b.rank && same(a.conflict, b.conflict) &&
         a.ranks == b.ranks && a.bytes == b.bytes && a.order == b.order && a.failed_ranks == b.failed_ranks &&
         a.failure == b.failure && a.beside == b.beside;
}

bool same(const Item& a, const Item& b) {
  return a.names == b.names && same(a.conflict, b.conflict) && a.bytes == b.bytes && a.order == b.order &&
         a.failed_ranks == b.failed_ranks && a.failure == b.failure && a.beside == b.beside && a.sequence == b.sequence;
}

bool same(const Report& a, const Report& b) {
  return a.name == b.name && a.missing == b.missing && a.cancel == b.cancel && a.held_back == b.held_back;
}

bool same(const std::optional<Withdrawal>& a, const std::optional<Withdrawal>& b) {
  if (a.has_value() != b.has_value()) return false;
  return !a || (a->name == b->name && a->missing == b->missing);
}

template <class Value>
bool same(const std::vector<Value>& a, const std::vector<Value>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Value& x, const Value& y) { return same(x, y); });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  kolo::fuzz::ByteSource source({data, size});
  const Envelope before = kolo::fuzz::make_envelope(source);
  const Envelope after = decode(encode(before));
  KOLO_CLAIM(after.epoch == before.epoch && after.depth == before.depth);
  KOLO_CLAIM(same(after.entries, before.entries));
  KOLO_CLAIM(same(after.items, before.items));
  KOLO_CLAIM(after.fatal == before.fatal);
  KOLO_CLAIM(after.failure == before.failure);
  KOLO_CLAIM(same(after.reports, before.reports));
  KOLO_CLAIM(same(after.withdrawal, before.withdrawal));
  return 0;
}
