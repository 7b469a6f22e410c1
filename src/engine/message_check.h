#pragma once
// What a message must satisfy before anything is done with it. codec.h refuses bytes that are no message; this refuses
// messages that no rank of the same version sends, so that the rest of the engine may index by ranks and counts that
// came from a peer. docs/protocol.md, "The named channel".
#include <vector>

#include "engine/messages.h"
#include "engine/tree.h"
#include "kolo/error.h"

namespace kolo::engine {

// A peer said what none should. Not a BackendError that ends one operation: nobody else may have seen it, so it ends
// the group.
class DamagedMessage : public BackendError {
 public:
  using BackendError::BackendError;
};

// Entries and reports come from a child, items and withdrawals from the parent; nothing is without a name; ranks are
// ranks of the world, sizes are not negative, uneven contributions are as many as ranks. Throws DamagedMessage.
void check(const Envelope& envelope, const Tree& tree, Rank from);

// `own`: what this rank has submitted under the item's names, in their order. One name, or several allreduces that may
// be fused; an allgather's contributions contain this rank's. Throws DamagedMessage.
void check(const Item& item, const std::vector<const Signature*>& own, const Tree& tree);

}  // namespace kolo::engine
