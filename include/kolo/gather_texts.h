#pragma once
// Allgather of texts: names, reports, serialised values.
//
//   for (const std::string& host : gather_texts(context, "host names", my_host)) ...
#include <string>
#include <vector>

#include "kolo/context.h"
#include "kolo/export.h"

namespace KOLO_EXPORT kolo {

// Returns the text `mine` of every rank, in rank order. A text may have any length and hold any bytes. `purpose` says
// which call this is, without a zero byte: if ranks have different purposes, every rank throws MismatchError, which
// names them. Collective: all ranks call it in the same order relative to other collective calls. Does two allgathers
// on `context.communicator()` and throws their errors: PeerLostError, TimeoutError after the configured timeout.
[[nodiscard]] std::vector<std::string> gather_texts(Context& context, const std::string& purpose,
                                                    const std::string& mine);

}  // namespace kolo
