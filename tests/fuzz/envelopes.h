#pragma once
// Envelopes made of a fuzzer's bytes: any value of every field, within its type.
#include "engine/messages.h"
#include "fuzz/byte_source.h"

namespace kolo::fuzz {

// A name of few, so that names meet.
[[nodiscard]] std::string make_name(ByteSource& source);
[[nodiscard]] engine::Signature make_signature(ByteSource& source);
[[nodiscard]] engine::Conflict make_conflict(ByteSource& source);
[[nodiscard]] engine::Fatal make_fatal(ByteSource& source);
[[nodiscard]] engine::Envelope make_envelope(ByteSource& source);

}  // namespace kolo::fuzz
