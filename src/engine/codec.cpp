#include "engine/codec.h"

#include "control.pb.h"
#include "engine/message_check.h"

namespace kolo::engine {
namespace {

template <class Enum>
Enum checked(std::uint32_t value, Enum last) {
  if (value > static_cast<std::uint32_t>(last)) {
    throw DamagedMessage("a control message holds the unknown value " + std::to_string(value) +
                         "; do all ranks run the same version of kolo?");
  }
  return static_cast<Enum>(value);
}

template <class Field>
auto to_vector(const Field& field) {
  return std::vector<typename Field::value_type>(field.begin(), field.end());
}

void write(const Signature& from, wire::Signature& to) {
  to.set_kind(static_cast<std::uint32_t>(from.kind));
  to.set_dtype(static_cast<std::uint32_t>(from.dtype));
  to.mutable_sizes()->Assign(from.sizes.begin(), from.sizes.end());
  to.mutable_strides()->Assign(from.strides.begin(), from.strides.end());
  to.set_op(static_cast<std::uint32_t>(from.op));
  to.set_prescale(from.prescale);
  to.set_postscale(from.postscale);
  to.set_root(from.root);
  to.set_table(from.table);
}

Signature read(const wire::Signature& from) {
  return {.kind = checked(from.kind(), Kind::gradient_round),
          .dtype = checked(from.dtype(), DType::boolean),
          .sizes = to_vector(from.sizes()),
          .strides = to_vector(from.strides()),
          .op = checked(from.op(), ReduceOp::product),
          .prescale = from.prescale(),
          .postscale = from.postscale(),
          .root = from.root(),
          .table = from.table()};
}

void write(const Conflict& from, wire::Conflict& to) {
  write(from.first, *to.mutable_first());
  to.set_first_rank(from.first_rank);
  write(from.second, *to.mutable_second());
  to.set_second_rank(from.second_rank);
}

Conflict read(const wire::Conflict& from) {
  return {read(from.first()), from.first_rank(), read(from.second()), from.second_rank()};
}

void write(const Entry& from, wire::Entry& to) {
  to.set_name(from.name);
  write(from.signature, *to.mutable_signature());
  to.set_rank(from.rank);
  if (from.conflict) write(*from.conflict, *to.mutable_conflict());
  to.mutable_ranks()->Assign(from.ranks.begin(), from.ranks.end());
  to.mutable_bytes()->Assign(from.bytes.begin(), from.bytes.end());
  to.mutable_order()->Assign(from.order.begin(), from.order.end());
  to.mutable_failed_ranks()->Assign(from.failed_ranks.begin(), from.failed_ranks.end());
  to.set_failure(from.failure);
  to.mutable_beside()->Assign(from.beside.begin(), from.beside.end());
}

Entry read(const wire::Entry& from) {
  Entry entry{.name = from.name(),
              .signature = read(from.signature()),
              .rank = from.rank(),
              .conflict = std::nullopt,
              .ranks = to_vector(from.ranks()),
              .bytes = to_vector(from.bytes()),
              .order = to_vector(from.order()),
              .failed_ranks = to_vector(from.failed_ranks()),
              .failure = from.failure(),
              .beside = to_vector(from.beside())};
  if (from.has_conflict()) entry.conflict = read(from.conflict());
  return entry;
}

void write(const Item& from, wire::Item& to) {
  for (const auto& name : from.names) to.add_names(name);
  if (from.conflict) write(*from.conflict, *to.mutable_conflict());
  to.mutable_bytes()->Assign(from.bytes.begin(), from.bytes.end());
  to.mutable_order()->Assign(from.order.begin(), from.order.end());
  to.mutable_failed_ranks()->Assign(from.failed_ranks.begin(), from.failed_ranks.end());
  to.set_failure(from.failure);
  to.mutable_beside()->Assign(from.beside.begin(), from.beside.end());
  to.set_sequence(from.sequence);
}

Item read(const wire::Item& from) {
  Item item{.names = {from.names().begin(), from.names().end()},
            .conflict = std::nullopt,
            .bytes = to_vector(from.bytes()),
            .order = to_vector(from.order()),
            .failed_ranks = to_vector(from.failed_ranks()),
            .failure = from.failure(),
            .beside = to_vector(from.beside()),
            .sequence = from.sequence()};
  if (from.has_conflict()) item.conflict = read(from.conflict());
  return item;
}

void write(const Fatal& from, wire::Fatal& to) {
  to.set_kind(static_cast<std::uint32_t>(from.kind));
  to.mutable_ranks()->Assign(from.ranks.begin(), from.ranks.end());
  to.set_text(from.text);
  to.set_sequence(from.sequence);
  to.mutable_rounds()->Assign(from.rounds.begin(), from.rounds.end());
  to.set_calls(from.calls);
  to.set_reducers(from.reducers);
  to.mutable_answered()->Assign(from.answered.begin(), from.answered.end());
  to.set_heard(from.heard);
  if (from.failed_round) {
    to.mutable_failed_round()->set_reducer(from.failed_round->reducer);
    to.mutable_failed_round()->set_round(from.failed_round->round);
  }
  to.set_after_failure(from.after_failure);
}

Fatal read(const wire::Fatal& from) {
  return {.kind = checked(from.kind(), FatalKind::backend),
          .ranks = to_vector(from.ranks()),
          .text = from.text(),
          .sequence = from.sequence(),
          .rounds = to_vector(from.rounds()),
          .calls = from.calls(),
          .reducers = from.reducers(),
          .answered = to_vector(from.answered()),
          .heard = from.heard(),
          .failed_round = from.has_failed_round()
                              ? std::optional(FailedRound{from.failed_round().reducer(), from.failed_round().round()})
                              : std::nullopt,
          .after_failure = from.after_failure()};
}

void write(const Report& from, wire::Report& to) {
  to.set_name(from.name);
  to.mutable_missing()->Assign(from.missing.begin(), from.missing.end());
  to.set_cancel(from.cancel);
  to.set_held_back(from.held_back);
}

Report read(const wire::Report& from) {
  return {from.name(), to_vector(from.missing()), from.cancel(), from.held_back()};
}

void write(const Withdrawal& from, wire::Withdrawal& to) {
  to.set_name(from.name);
  to.mutable_missing()->Assign(from.missing.begin(), from.missing.end());
}

}  // namespace

std::vector<std::byte> encode(const Envelope& envelope) {
  wire::Envelope message;
  message.set_epoch(envelope.epoch);
  message.set_depth(envelope.depth);
  for (const auto& entry : envelope.entries) write(entry, *message.add_entries());
  for (const auto& item : envelope.items) write(item, *message.add_items());
  if (envelope.fatal) write(*envelope.fatal, *message.mutable_fatal());
  if (envelope.failure) write(*envelope.failure, *message.mutable_failure());
  for (const auto& report : envelope.reports) write(report, *message.add_reports());
  if (envelope.withdrawal) write(*envelope.withdrawal, *message.mutable_withdrawal());
  std::vector<std::byte> bytes(message.ByteSizeLong());
  if (!message.SerializeToArray(bytes.data(), static_cast<int>(bytes.size()))) {
    throw BackendError("a control message could not be written");
  }
  return bytes;
}

Envelope decode(std::span<const std::byte> bytes) {
  wire::Envelope message;
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    throw DamagedMessage("a control message of " + std::to_string(bytes.size()) + " bytes is damaged");
  }
  Envelope envelope;
  envelope.epoch = message.epoch();
  envelope.depth = message.depth();
  envelope.entries.reserve(static_cast<std::size_t>(message.entries_size()));
  envelope.items.reserve(static_cast<std::size_t>(message.items_size()));
  for (const auto& entry : message.entries()) envelope.entries.push_back(read(entry));
  for (const auto& item : message.items()) envelope.items.push_back(read(item));
  if (message.has_fatal()) envelope.fatal = read(message.fatal());
  if (message.has_failure()) envelope.failure = read(message.failure());
  for (const auto& report : message.reports()) envelope.reports.push_back(read(report));
  if (message.has_withdrawal()) {
    envelope.withdrawal = Withdrawal{message.withdrawal().name(), to_vector(message.withdrawal().missing())};
  }
  return envelope;
}

}  // namespace kolo::engine
