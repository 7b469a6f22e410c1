#pragma once
#include <span>
#include <vector>

#include "engine/messages.h"

namespace kolo::engine {

[[nodiscard]] std::vector<std::byte> encode(const Envelope& envelope);
// Throws DamagedMessage (engine/message_check.h) for bytes that are no Envelope, or that hold values outside their
// enumerations.
[[nodiscard]] Envelope decode(std::span<const std::byte> bytes);

}  // namespace kolo::engine
