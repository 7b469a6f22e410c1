// The model of Hockney (alpha + beta n) as it is used for collectives in Thakur, Rabenseifner and Gropp, "Optimization
// of collective communication operations in MPICH", IJHPCA 2005; Rabenseifner, "Optimization of collective reduction
// operations", ICCS 2004; Sanders, Speck and Träff, "Two-tree algorithms for full bandwidth broadcast, reduction and
// scan", Parallel Computing 2009. What is ours is counted as we do it:
//
//   ring                  max(2 (p-1) B beta + alpha, 2 (p-1) (alpha + min(B, S) beta)) + (p-1) B gamma
//   halving, doubling     2 d alpha + 2 (p-1) B beta f + (p-1) B gamma
//   tree                  2 d alpha + 2 (2d-1) s beta + T (1 - s/share) beta f + N gamma
//   recursive doubling    r (alpha + N beta w + N gamma) where it halves nothing; a round that halves is two, of half
//   the
//                         bytes, and halves those of all rounds after it
//   in place              2 sync + N gamma
//   lanes                 k sync + N (p+1)/2 gamma
//   sliced lanes          2 k sync + 3 N gamma
//   hierarchical          2 sync + 2 N gamma + the best of the first four across, on N / lanes
//
//   p, d    ranks; ceil(log2 p)
//   N, B    bytes; a rank's block of them, N/p
//   S       a segment: once a block is longer, what follows hides alpha
//   f       partner_factor, where there are more than two ranks
//   s, share, T   the tree's segment and half of the data (double_tree.cpp); what an inner rank sends: N for two ranks,
//           1.5 N for three, else 2 N
//   r, w    d, one more unless p is a power of two; whole_factor where N > S, or 3 S between two ranks, else 1
//   k       pieces of 128 KiB
//
// Where hosts have several ranks, messages inside a host and between hosts are counted apart: a host's link carries
// what all its ranks send to other hosts.
//
// Only elementary operations in a fixed order: ranks that run the same program agree on every bit.
#include "comm/cost_model.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "collectives/double_tree.h"
#include "collectives/lanes.h"
#include "comm/hosted_allreduce.h"

namespace kolo::comm {
namespace {

int ceil_log2(int value) { return static_cast<int>(std::bit_width(static_cast<unsigned>(value - 1))); }

double pieces(double bytes, double piece) {
  const double whole = static_cast<double>(static_cast<long long>(bytes / piece));
  return std::max(1.0, whole * piece < bytes ? whole + 1 : whole);
}

// Messages one after another, inside hosts and between hosts, and bytes that pass a rank's or a host's busiest link.
class Path {
 public:
  Path(const Surroundings& at, const CostConstants& constants) : at_(at), constants_(constants) {}

  // `rounds` messages one after another, `between` of them to another host.
  void rounds(int rounds, int between) {
    us_ += between * constants_.network.alpha_us + (rounds - between) * constants_.host.alpha_us;
  }
  // Every rank sends `bytes`, and `crossing` of a host's ranks send them to another host.
  void bytes(double bytes, int crossing) {
    if (at_.hosts > 1) us_ += bytes * crossing * at_.sharing * constants_.network.beta_us;
    if (crossing < at_.ranks_per_host()) us_ += bytes * constants_.host.beta_us;
  }
  void reduced(double bytes) { us_ += bytes * constants_.gamma_us; }
  [[nodiscard]] double us() const { return us_; }
  // How many of a host's ranks send to another one when all send `distance` ranks on.
  [[nodiscard]] int crossing(int distance) const {
    return at_.hosts == 1 ? 0 : std::min(distance, at_.ranks_per_host());
  }

 private:
  const Surroundings& at_;
  const CostConstants& constants_;
  double us_ = 0;
};

// Levels of a tree of `depth` whose edges lead to another host.
int levels_between(int depth, const Surroundings& at) {
  if (at.hosts == at.size) return depth;
  return at.hosts == 1 ? 0 : std::min(depth, ceil_log2(at.hosts));
}

double ring_cost(double bytes, const Surroundings& at, const CostConstants& constants) {
  const double p = at.size;
  const double block = bytes / p;
  const double between = at.hosts == 1 ? 0 : at.hosts / p;  // of all hops
  const double alpha = between * constants.network.alpha_us + (1 - between) * constants.host.alpha_us;
  const double beta = at.hosts == 1 ? constants.host.beta_us : constants.network.beta_us * at.sharing;
  const double first = alpha + std::min(block, static_cast<double>(at.segment_bytes)) * beta;
  const double stream = 2 * (p - 1) * block * beta + alpha;
  return std::max(stream, 2 * (p - 1) * first) + (p - 1) * block * constants.gamma_us;
}

double halving_doubling_cost(double bytes, const Surroundings& at, const CostConstants& constants) {
  const double p = at.size;
  const double factor = at.size == 2 ? 1 : constants.partner_factor;
  Path path(at, constants);
  const int rounds = 2 * ceil_log2(at.size);
  path.rounds(rounds, at.hosts == 1 ? 0 : rounds);  // at any distance somebody's partner is on another host
  for (int apart = at.size; apart > 1; apart = (apart + 1) / 2) {
    const int distance = (apart + 1) / 2;
    path.bytes(2 * factor * bytes * (apart - distance) / p, path.crossing(distance));
  }
  path.reduced(bytes * (p - 1) / p);
  return path.us();
}

double tree_cost(double bytes, const Surroundings& at, const CostConstants& constants) {
  constexpr double kSmallestShare = collectives::TreeShares::kSmallestShare;
  constexpr double kSegments = collectives::TreeShares::kSegmentsPerShare;
  const int depth = ceil_log2(at.size);
  const bool two = bytes >= 2 * kSmallestShare;
  const double share = two ? bytes / 2 : bytes;
  const double segment =
      std::min({share, static_cast<double>(at.segment_bytes), std::max(kSmallestShare, share / kSegments)});
  const double sent = at.size == 2 ? bytes : at.size == 3 ? 1.5 * bytes : 2 * bytes;
  const double factor = at.size == 2 ? 1 : constants.partner_factor;
  Path path(at, constants);
  path.rounds(2 * depth, 2 * levels_between(depth, at));
  path.bytes(2.0 * (2 * depth - 1) * segment, path.crossing(1));
  if (share > segment) path.bytes(factor * sent * (1 - segment / share), path.crossing(1));
  path.reduced(bytes);
  return path.us();
}

double recursive_doubling_cost(double bytes, int halvings, const Surroundings& at, const CostConstants& constants) {
  const int full = static_cast<int>(std::bit_floor(static_cast<unsigned>(at.size)));
  const bool paired = full == at.size && at.hosts * at.ranks_per_host() == at.size;  // no host is out of step
  const int segments = at.size == 2 ? 3 : 1;  // what goes both ways at once without a pause: nobody else is waited for
  const auto busy = [&](double message) {
    const bool whole = message > static_cast<double>(segments * at.segment_bytes);
    return (whole ? constants.whole_factor : 1) * message;
  };
  Path path(at, constants);
  double kept = bytes;
  for (int distance = 1; distance < full; distance *= 2) {
    const bool halves = halvings-- > 0;
    if (halves) kept /= 2;
    const int ways = halves ? 2 : 1;  // what is halved comes back
    const bool inside = at.hosts == 1 || (paired && at.ranks_per_host() % (2 * distance) == 0);
    path.rounds(ways, inside ? 0 : ways);
    path.bytes(ways * busy(kept), inside ? 0 : at.ranks_per_host());
    path.reduced(kept);
  }
  if (full != at.size) {
    path.rounds(2, at.hosts == at.size ? 2 : 0);
    path.bytes(2 * busy(bytes), path.crossing(1));
    path.reduced(bytes);
  }
  return path.us();
}

struct Doubling {
  int halvings = 0;
  double us = 0;
};

Doubling cheapest_doubling(double bytes, const Surroundings& at, const CostConstants& constants) {
  Doubling best{0, recursive_doubling_cost(bytes, 0, at, constants)};
  const int rounds = static_cast<int>(std::bit_width(static_cast<unsigned>(at.size))) - 1;
  for (int halvings = 1; halvings < rounds; ++halvings) {  // halving in the last one saves nothing
    const double us = recursive_doubling_cost(bytes, halvings, at, constants);
    if (us < best.us) best = {halvings, us};
  }
  return best;
}

double direct_cost(Way way, double bytes, const Surroundings& at, const CostConstants& constants) {
  const double steps = pieces(bytes, static_cast<double>(collectives::kLaneBytes));
  switch (way) {
    case Way::in_place:
      return 2 * constants.sync_us + bytes * constants.gamma_us;
    case Way::lanes:
      return steps * constants.sync_us + bytes * (at.size + 1) / 2 * constants.gamma_us;
    default:
      return 2 * steps * constants.sync_us + 3 * bytes * constants.gamma_us;
  }
}

// In the host each lane's share is summed and, at the end, handed round: twice the work of one direct allreduce.
// Across, shares travel in pieces (hosted_allreduce.cpp).
double hierarchical_cost(const Load& load, const Surroundings& at, const CostConstants& constants) {
  constexpr std::size_t kPieceBytes = HostedAllreduce::kPieceBytes;
  const bool one_lane = load.bytes <= HostedAllreduce::kOneLaneBytes;
  Surroundings outer = across(at);
  if (one_lane) outer.sharing = at.sharing;
  const std::size_t lanes = one_lane ? 1 : static_cast<std::size_t>(at.lanes);
  const std::size_t share = (load.bytes + lanes - 1) / lanes;
  const Load piece{std::min(share, kPieceBytes), load.flags};
  double best = std::numeric_limits<double>::infinity();
  for (const Way way : {Way::ring, Way::tree, Way::halving_doubling, Way::recursive_doubling}) {
    best = std::min(best, cost_us(way, piece, outer, constants));
  }
  if (share > kPieceBytes) best *= static_cast<double>(share) / static_cast<double>(kPieceBytes);
  return 2 * constants.sync_us + 2 * static_cast<double>(load.bytes) * constants.gamma_us + best;
}

}  // namespace

std::string_view name_of(Way way) noexcept {
  switch (way) {
    case Way::alone:
      return "alone";
    case Way::in_place:
      return "direct in place";
    case Way::lanes:
      return "direct through staging slots";
    case Way::sliced_lanes:
      return "direct through sliced staging slots";
    case Way::ring:
      return "ring";
    case Way::tree:
      return "tree";
    case Way::halving_doubling:
      return "halving_doubling";
    case Way::recursive_doubling:
      return "recursive_doubling";
    case Way::hierarchical:
      return "hierarchical";
  }
  return "";
}

CostConstants fixed_costs() noexcept {
  CostConstants constants;
  constants.host = {.alpha_us = 2, .beta_us = 1.5e-4};
  constants.network = {.alpha_us = 20, .beta_us = 9e-4};
  constants.gamma_us = 2.5e-5;
  constants.sync_us = 0.3;
  constants.whole_factor = 1.2;
  constants.partner_factor = 1.02;
  return constants;
}

Surroundings across(const Surroundings& surroundings) noexcept {
  Surroundings outer = surroundings;
  outer.size = surroundings.hosts;
  outer.shared_memory = false;
  outer.sharing = surroundings.sharing * surroundings.lanes;
  outer.lanes = 0;
  return outer;
}

double cost_us(Way way, const Load& load, const Surroundings& surroundings, const CostConstants& constants) {
  const auto bytes = static_cast<double>(load.bytes);
  Path flags(surroundings, constants);
  const int spreading = load.flags ? ceil_log2(surroundings.size) : 0;
  flags.rounds(spreading, surroundings.hosts == 1 ? 0 : spreading);
  switch (way) {
    case Way::ring:
      return flags.us() + ring_cost(bytes, surroundings, constants);
    case Way::tree:
      return flags.us() + tree_cost(bytes, surroundings, constants);
    case Way::halving_doubling:
      return flags.us() + halving_doubling_cost(bytes, surroundings, constants);
    case Way::recursive_doubling:  // flags are part of its messages
      return cheapest_doubling(bytes, surroundings, constants).us;
    case Way::hierarchical:
      return hierarchical_cost(load, surroundings, constants);
    case Way::alone:
      return bytes * constants.gamma_us;
    default:
      return direct_cost(way, bytes, surroundings, constants);
  }
}

int halvings_of(std::size_t bytes, const Surroundings& surroundings, const CostConstants& constants) {
  return cheapest_doubling(static_cast<double>(bytes), surroundings, constants).halvings;
}

// Segments are passed on as they come; the first one has to take every hop. In a tree every rank but the root sends a
// segment twice, and each half of the data has a tree of its own.
double cost_us(Spread spread, std::size_t bytes, const Surroundings& surroundings, const CostConstants& constants) {
  const double all = static_cast<double>(bytes);
  const double segment = std::min(all, static_cast<double>(surroundings.segment_bytes));
  const bool chain = spread == Spread::chain;
  const int depth = chain ? surroundings.size - 1 : ceil_log2(surroundings.size);
  const int sends = chain ? depth : 2 * depth - 1;
  const double factor = chain || surroundings.size == 2 ? 1 : constants.partner_factor;
  Path path(surroundings, constants);
  path.rounds(depth, chain ? surroundings.hosts - 1 : levels_between(depth, surroundings));
  path.bytes(sends * segment + factor * (all - segment), path.crossing(1));
  return path.us();
}

}  // namespace kolo::comm
