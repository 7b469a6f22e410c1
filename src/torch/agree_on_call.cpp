#include "torch/agree_on_call.h"

#include <algorithm>

#include "kolo/error.h"
#include "kolo/gather_texts.h"

namespace kolo {

std::vector<std::string> gather_for(Context& context, const std::string& purpose, const std::string& mine) {
  std::vector<std::string> purposes;
  auto texts = gather_texts(context, purpose + '\0' + mine);
  for (std::string& theirs : texts) {
    const auto end = std::min(theirs.find('\0'), theirs.size());
    purposes.push_back(theirs.substr(0, end));
    theirs.erase(0, end + 1);
  }
  for (std::size_t rank = 1; rank < purposes.size(); ++rank) {
    if (purposes[rank] == purposes[0]) continue;
    throw MismatchError("ranks are in different calls: rank 0 in " + purposes[0] + ", rank " + std::to_string(rank) +
                        " in " + purposes[rank] + ". All ranks must make the same calls in the same order");
  }
  return texts;
}

void agree_on_call(Context& context, const std::string& call, const std::string& what, const std::string& refusal) {
  // A refusal may hold any character, and comes last.
  auto texts = gather_for(context, call, what + '\n' + refusal);
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
