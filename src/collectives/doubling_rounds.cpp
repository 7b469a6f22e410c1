#include "collectives/doubling_rounds.h"

#include <algorithm>
#include <bit>

namespace kolo::collectives {
namespace {

using Kind = DoublingRound::Kind;

int possible_halvings(std::size_t count, std::size_t grain, int asked_for) {
  const std::size_t grains = (count + grain - 1) / grain;
  const int most = grains == 0 ? 0 : static_cast<int>(std::bit_width(grains)) - 1;
  return std::clamp(asked_for, 0, most);
}

}  // namespace

std::vector<DoublingRound> doubling_rounds(Rank rank, int size, std::size_t count, std::size_t grain, int halvings) {
  const int full = static_cast<int>(std::bit_floor(static_cast<unsigned>(size)));
  const int pairs = size - full;  // ranks 0 ... 2 pairs - 1 fold, the even ones are surplus
  const bool folds = rank < 2 * pairs;
  const Range all{0, count};
  if (folds && rank % 2 == 0) return {{Kind::hand_in, rank + 1, rank + 1, all, all}};

  std::vector<DoublingRound> rounds;
  if (folds) rounds.push_back({Kind::fold, DoublingRound::kNobody, rank - 1, {}, all});
  const int position = folds ? rank / 2 : rank - pairs;
  int halvings_left = possible_halvings(count, grain, halvings);
  Range kept = all;
  std::vector<DoublingRound> back;
  for (int distance = 1; distance < full; distance *= 2) {
    const int other = position ^ distance;
    const Rank partner = other < pairs ? 2 * other + 1 : other + pairs;
    const bool last = 2 * distance == full;
    if (halvings_left-- <= 0) {
      rounds.push_back({Kind::exchange, partner, partner, kept, kept, last});
      continue;
    }
    const std::size_t middle = kept.begin + part_of(kept.size(), 2, 0, grain).end;
    Range theirs{middle, kept.end};
    kept.end = middle;
    if ((position & distance) != 0) std::swap(kept, theirs);
    rounds.push_back({Kind::halve, partner, partner, theirs, kept, last});
    back.push_back({Kind::spread, partner, partner, kept, theirs});
  }
  rounds.insert(rounds.end(), back.rbegin(), back.rend());
  if (folds) rounds.push_back({Kind::unfold, rank - 1, DoublingRound::kNobody, all, {}});
  return rounds;
}

}  // namespace kolo::collectives
