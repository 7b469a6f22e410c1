#include "fuzz/envelopes.h"

namespace kolo::fuzz {
namespace {

using namespace engine;

// Mostly ranks of a small world, now and then anything.
Rank make_rank(ByteSource& source) {
  const auto byte = source.number<std::int8_t>();
  return byte < 100 ? byte % 8 : source.number<std::int32_t>();
}

std::vector<Rank> make_ranks(ByteSource& source) {
  std::vector<Rank> ranks(source.below(5));
  for (auto& rank : ranks) rank = make_rank(source);
  return ranks;
}

Entry make_entry(ByteSource& source) {
  Entry entry;
  entry.name = make_name(source);
  entry.signature = make_signature(source);
  entry.rank = make_rank(source);
  if (source.below(4) == 1) entry.conflict = make_conflict(source);
  entry.ranks = make_ranks(source);
  for (std::size_t i = 0; i < entry.ranks.size(); ++i) entry.bytes.push_back(source.number<std::uint64_t>());
  entry.order = source.numbers<std::uint32_t>();
  entry.failed_ranks = make_ranks(source);
  entry.failure = source.text();
  entry.beside = source.numbers<std::uint32_t>();
  return entry;
}

Item make_item(ByteSource& source) {
  Item item;
  for (std::size_t names = source.below(4); names > 0; --names) item.names.push_back(make_name(source));
  if (source.below(4) == 1) item.conflict = make_conflict(source);
  item.bytes = source.numbers<std::uint64_t>();
  item.order = source.numbers<std::uint32_t>();
  item.failed_ranks = make_ranks(source);
  item.failure = source.text();
  item.beside = source.numbers<std::uint32_t>();
  item.sequence = source.number<std::uint8_t>();
  return item;
}

}  // namespace

std::string make_name(ByteSource& source) {
  const std::size_t which = source.below(8);
  return which < 6 ? std::string(1, static_cast<char>('a' + which)) : source.text();
}

Signature make_signature(ByteSource& source) {
  Signature signature;
  signature.kind = static_cast<Kind>(source.below(static_cast<std::size_t>(Kind::gradient_round) + 1));
  signature.dtype = static_cast<DType>(source.below(static_cast<std::size_t>(DType::boolean) + 1));
  signature.op = static_cast<ReduceOp>(source.below(static_cast<std::size_t>(ReduceOp::product) + 1));
  signature.sizes = source.numbers<std::int64_t>();
  signature.strides = source.numbers<std::int64_t>();
  if (source.coin()) signature.prescale = source.number<double>();
  if (source.coin()) signature.postscale = source.number<double>();
  signature.root = make_rank(source);
  signature.table = source.text();
  return signature;
}

Conflict make_conflict(ByteSource& source) {
  Conflict conflict;
  conflict.first = make_signature(source);
  conflict.first_rank = make_rank(source);
  conflict.second = make_signature(source);
  conflict.second_rank = make_rank(source);
  return conflict;
}

Fatal make_fatal(ByteSource& source) {
  Fatal fatal;
  fatal.kind = static_cast<FatalKind>(source.below(static_cast<std::size_t>(FatalKind::backend) + 1));
  fatal.ranks = make_ranks(source);
  fatal.text = source.text();
  fatal.sequence = source.number<std::uint64_t>();
  fatal.rounds = source.numbers<std::uint64_t>();
  fatal.calls = source.below(9);
  fatal.reducers = source.below(9);
  fatal.answered = source.numbers<std::uint64_t>();
  fatal.heard = source.number<std::uint8_t>();
  if (source.coin()) fatal.failed_round = engine::FailedRound{source.below(3), source.number<std::uint8_t>()};
  fatal.after_failure = source.below(2) == 1;
  return fatal;
}

Envelope make_envelope(ByteSource& source) {
  Envelope envelope;
  envelope.epoch = source.number<std::uint8_t>();
  envelope.depth = source.number<std::uint32_t>();
  for (std::size_t count = source.below(3); count > 0; --count) envelope.entries.push_back(make_entry(source));
  for (std::size_t count = source.below(3); count > 0; --count) envelope.items.push_back(make_item(source));
  if (source.below(8) == 1) envelope.fatal = make_fatal(source);
  if (source.below(4) == 1) envelope.failure = make_fatal(source);
  for (std::size_t count = source.below(3); count > 0; --count) {
    envelope.reports.push_back({make_name(source), make_ranks(source), source.coin(), source.coin()});
  }
  if (source.below(4) == 1) envelope.withdrawal = Withdrawal{make_name(source), make_ranks(source)};
  return envelope;
}

}  // namespace kolo::fuzz
