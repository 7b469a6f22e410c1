#include "torch/agree_on_call.h"

#include "kolo/context.h"
#include "kolo/error.h"

namespace kolo {

void agree_on_call(Context& context, const std::string& call, const std::string& what, const std::string& refusal) {
  // A refusal may hold any character, and comes last.
  auto texts = gather_texts(context, call, what + '\n' + refusal);
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    const auto end = texts[rank].find('\n');
    const auto theirs = texts[rank].substr(end + 1);
    if (!theirs.empty()) throw UsageError(call + " was refused on rank " + std::to_string(rank) + ": " + theirs);
    texts[rank].resize(end);
  }
  for (std::size_t rank = 1; rank < texts.size(); ++rank) {
    if (texts[rank] == texts[0]) continue;
    throw MismatchError(call + ": rank 0 has " + texts[0] + ", rank " + std::to_string(rank) + " has " + texts[rank]);
  }
}

std::string trouble_with_root(const Context& context, Rank root) {
  if (root >= 0 && root < context.size()) return {};
  return "root " + std::to_string(root) + " is not a rank of a world of " + std::to_string(context.size());
}

}  // namespace kolo
