#pragma once
#include <string>

#include "kolo/context.h"

namespace kolo {

// Before a collective call changes anything: all ranks tell each other what they are to do, and why one of them cannot
// (`refusal`; empty: it can). Throws UsageError with the first refusal, else MismatchError if ranks are to do different
// things; on every rank with the same text.
void agree_on_call(Context& context, const std::string& call, const std::string& what, const std::string& refusal);
// Empty: `root` is a rank of the context.
[[nodiscard]] std::string trouble_with_root(const Context& context, Rank root);

}  // namespace kolo
