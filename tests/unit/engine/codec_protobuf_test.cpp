// The bytes of codec.h beside those of protobuf's own code for the same control.proto.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "control.pb.h"
#include "engine/codec.h"
#include "engine/message_check.h"
#include "fuzz/envelopes.h"

namespace kolo::engine {
namespace {

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

void write(const Conflict& from, wire::Conflict& to) {
  write(from.first, *to.mutable_first());
  to.set_first_rank(from.first_rank);
  write(from.second, *to.mutable_second());
  to.set_second_rank(from.second_rank);
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

void write(const Report& from, wire::Report& to) {
  to.set_name(from.name);
  to.mutable_missing()->Assign(from.missing.begin(), from.missing.end());
  to.set_cancel(from.cancel);
  to.set_held_back(from.held_back);
}

void write(const Withdrawal& from, wire::Withdrawal& to) {
  to.set_name(from.name);
  to.mutable_missing()->Assign(from.missing.begin(), from.missing.end());
}

std::vector<std::byte> bytes_of(const wire::Envelope& message) {
  std::vector<std::byte> bytes(message.ByteSizeLong());
  EXPECT_TRUE(message.SerializeToArray(bytes.data(), static_cast<int>(bytes.size())));
  return bytes;
}

std::vector<std::byte> encode_with_protobuf(const Envelope& envelope) {
  wire::Envelope message;
  message.set_epoch(envelope.epoch);
  message.set_depth(envelope.depth);
  for (const auto& entry : envelope.entries) write(entry, *message.add_entries());
  for (const auto& item : envelope.items) write(item, *message.add_items());
  if (envelope.fatal) write(*envelope.fatal, *message.mutable_fatal());
  if (envelope.failure) write(*envelope.failure, *message.mutable_failure());
  for (const auto& report : envelope.reports) write(report, *message.add_reports());
  if (envelope.withdrawal) write(*envelope.withdrawal, *message.mutable_withdrawal());
  return bytes_of(message);
}

Envelope random_envelope(std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<std::uint8_t> supply(random() % 2000);
  for (auto& byte : supply) byte = static_cast<std::uint8_t>(random());
  fuzz::ByteSource source(supply);
  return fuzz::make_envelope(source);
}

TEST(CodecBesideProtobuf, AnyEnvelopeHasTheSameBytes) {
  for (std::uint32_t seed = 0; seed < 3000; ++seed) {
    const Envelope envelope = random_envelope(seed);
    ASSERT_EQ(encode(envelope), encode_with_protobuf(envelope)) << "seed " << seed;
  }
}

TEST(CodecBesideProtobuf, ReadsWhatProtobufWrote) {
  for (std::uint32_t seed = 0; seed < 3000; ++seed) {
    const auto bytes = encode_with_protobuf(random_envelope(seed));
    ASSERT_EQ(encode(decode(bytes)), bytes) << "seed " << seed;
  }
}

TEST(CodecBesideProtobuf, EmptyMessagesArePresent) {
  Envelope envelope;
  envelope.entries.resize(2);
  envelope.entries[0].signature = {.sizes = {}, .strides = {}, .prescale = 0, .postscale = 0, .table = {}};
  envelope.failure = Fatal{};
  envelope.failure->kind = FatalKind::peer_left;
  envelope.failure->failed_round = FailedRound{};
  envelope.withdrawal = Withdrawal{};
  ASSERT_EQ(encode(envelope), encode_with_protobuf(envelope));
  const Envelope again = decode(encode(envelope));
  EXPECT_EQ(again.entries.size(), 2U);
  EXPECT_EQ(again.entries[0].signature.prescale, 0);
  EXPECT_EQ(again.entries[1].signature.prescale, 1);
  EXPECT_EQ(again.failure, envelope.failure);
  EXPECT_TRUE(again.withdrawal);
}

TEST(CodecBesideProtobuf, NegativeNumbersAndNegativeZeroKeepTheirBits) {
  Envelope envelope;
  envelope.entries.resize(1);
  envelope.entries[0].rank = -1;
  envelope.entries[0].ranks = {-2, 3};
  envelope.entries[0].signature.sizes = {-5};
  envelope.entries[0].signature.prescale = -0.0;
  ASSERT_EQ(encode(envelope), encode_with_protobuf(envelope));
  const Entry again = decode(encode(envelope)).entries[0];
  EXPECT_EQ(again.rank, -1);
  EXPECT_THAT(again.ranks, testing::ElementsAre(-2, 3));
  EXPECT_THAT(again.signature.sizes, testing::ElementsAre(-5));
  EXPECT_TRUE(std::signbit(again.signature.prescale));
}

// A part of a message is refused by both or read by both, as the same values.
TEST(CodecBesideProtobuf, TruncatedMessagesAreRefusedAlike) {
  int refused = 0;
  for (std::uint32_t seed = 0; seed < 40; ++seed) {
    const auto whole = encode(random_envelope(seed));
    for (std::size_t size = 0; size < whole.size(); ++size) {
      const std::vector<std::byte> part(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
      wire::Envelope message;
      const bool readable = message.ParseFromArray(part.data(), static_cast<int>(size));
      if (readable) {
        ASSERT_EQ(encode(decode(part)), bytes_of(message)) << "seed " << seed << ", " << size << " bytes";
      } else {
        ASSERT_THROW(static_cast<void>(decode(part)), DamagedMessage) << "seed " << seed << ", " << size << " bytes";
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, 1000);
}

// proto3 readers take a list of numbers in both forms, and skip what they do not know.
TEST(Codec, ReadsUnpackedListsAndSkipsUnknownFields) {
  const auto read = [](std::initializer_list<int> values) {
    std::vector<std::byte> bytes;
    for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
    return decode(bytes);
  };
  // entries { order: 7 order: 8 } with field 7 as single varints
  EXPECT_THAT(read({0x12, 4, 0x38, 7, 0x38, 8}).entries.at(0).order, testing::ElementsAre(7, 8));
  // field 15 as a varint and as a text; epoch as a text, which is another wire type; then epoch = 5
  EXPECT_EQ(read({0x78, 1, 0x7a, 1, 'x', 0x0a, 1, 'x', 0x08, 5}).epoch, 5U);
}

}  // namespace
}  // namespace kolo::engine
