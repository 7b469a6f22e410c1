#pragma once
// A text of every rank on every rank: names, reports, whatever a program has serialised.
#include <string>
#include <vector>

#include "kolo/context.h"
#include "kolo/export.h"

namespace KOLO_EXPORT kolo {

// Collective: all ranks call it in the same order relative to other collective calls. Every rank's text, in rank order;
// they may be of any length and hold any bytes. Two allgathers, of lengths and of contents, by
// `context.communicator()`; throws what they throw (PeerLostError, TimeoutError after the configured timeout ...).
[[nodiscard]] std::vector<std::string> gather_texts(Context& context, const std::string& mine);

}  // namespace kolo
