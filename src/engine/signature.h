#pragma once
// Whether ranks agree on a request, and how to say where they do not. Functions of values only.
#include <optional>
#include <string>
#include <vector>

#include "engine/messages.h"
#include "kolo/spi/gradient_reducer.h"

namespace kolo::engine {

[[nodiscard]] Signature signature_of(const Request& request);
// The table and the settings that must agree, as text: a line of settings, then a line a tensor. Equal exactly
// if tables and settings are.
[[nodiscard]] std::string table_text(const std::vector<GradientInfo>& table, const ReducerOptions& options);

// Whether a request with `mine` and one with `theirs` are the same operation. Allgathers may differ in their first
// size.
[[nodiscard]] bool agree(const Signature& mine, const Signature& theirs);
// For the error on every rank: what differs, with both values and both ranks.
[[nodiscard]] std::string describe(const std::string& name, const Conflict& conflict);

// "[3, 224]"
[[nodiscard]] std::string to_text(const std::vector<std::int64_t>& values);

}  // namespace kolo::engine
