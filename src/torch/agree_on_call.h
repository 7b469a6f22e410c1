#pragma once
#include <string>

#include "kolo/context.h"

namespace kolo {

// Called before a collective call changes anything. Ranks exchange their arguments (`what`) and the
// reason why a rank cannot take part (`refusal`; empty: none). Every rank throws the same error:
// UsageError with the first refusal, else MismatchError if the arguments differ.
void agree_on_call(Context& context, const std::string& call, const std::string& what, const std::string& refusal);
// Empty: `root` is a rank of the context.
[[nodiscard]] std::string trouble_with_root(const Context& context, Rank root);

}  // namespace kolo
