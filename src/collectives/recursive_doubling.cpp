// Recursive doubling for small messages (Thakur, Rabenseifner and Gropp, "Optimization of collective communication
// operations in MPICH", IJHPCA 2005): in round k a rank exchanges everything it knows with the rank at distance 2^k,
// and both compute the same.
//
//   round 0   0 <--> 1   2 <--> 3      01 01 23 23 are known
//   round 1   0 <--> 2   1 <--> 3      0123 everywhere
//
// The first h rounds may halve instead (Rabenseifner, "Optimization of collective reduction operations", ICCS 2004): a
// rank sends the half that its partner keeps, and goes on with the other one. After the last round the halves come back
// in the opposite order. So h rounds more move fewer bytes: the more, the longer the data.
//
//   h = 1     0 --b--> 1   1 --a--> 0   2 --b--> 3   3 --a--> 2      0 and 2 keep half a, 1 and 3 half b
//             0 <-a--> 2   1 <-b--> 3                                a over 0123 at 0 and 2, b at 1 and 3
//             0 --a--> 1   1 --b--> 0   2 --a--> 3   3 --b--> 2      everything everywhere
//
// p = 2^k + s: the s surplus ranks hand theirs to a neighbour first, and get the result from it in the end.
//
//   p = 6     0 --> 1   2 --> 3        fold: 1 knows 01, 3 knows 23; on with 1 3 4 5
//             1 <--> 3  4 <--> 5
//             1 <--> 4  3 <--> 5
//             0 <-- 1   2 <-- 3        unfold
//
// Cost: k + h rounds, with n = N / 2^h: (k + h) alpha + (2 (N - n) + (k - h) n) beta + (N - n + (k - h) n) gamma, and
// 2 (alpha + N beta) + N gamma more unless p is a power of two. N includes 8 bytes a flag word. With h = k - 1 these
// are the bytes of halving and doubling, in a round less.
//
// Flags and data are one message, worked on in memory of our own:  | flag words | elements |
// so a veto costs no round of its own; the caller's data is written when everything is known, or never. Partial results
// are those of neighbouring ranks in rank order, lower ones first on both sides, so all ranks compute the same bits,
// whatever h is; each divides and postscales for itself. 16-bit types are rounded in every round.
#include <array>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "collectives/doubling_rounds.h"
#include "collectives/expected_message.h"
#include "collectives/network.h"
#include "collectives/reduction.h"
#include "collectives/widen.h"
#include "kernels/scale_copy.h"

namespace kolo::collectives {
namespace {

class RecursiveDoubling final : public Machine {
 public:
  RecursiveDoubling(const NetworkParts& parts, const AllreduceOptions& options, int halvings)
      : Machine(parts.group),
        transport_(*parts.group->transport),
        tag_(parts.tag),
        options_(options),
        reduction_(reduction_of(options)),
        wide_(needs_wide_sums(options.dtype, options.op)),
        flag_bytes_(options.flags.words.size_bytes()) {
    if (wide_) reduction_.dtype = DType::i64;
    element_ = size_of(reduction_.dtype);
    bytes_ = flag_bytes_ + options.count * element_;
    if (bytes_ == 0) return;
    rounds_ =
        doubling_rounds(transport_.rank(), transport_.size(), options.count, line_grain(reduction_.dtype), halvings);
    sends_.resize(rounds_.size());
    stride_ = whole_lines(bytes_);
    memory_ = std::make_unique_for_overwrite<std::uint64_t[]>(4 * stride_ / sizeof(std::uint64_t));
    if (flag_bytes_ != 0) std::memcpy(message(kResult), options_.flags.words.data(), flag_bytes_);
    lay_out(0, {0, options.count}, [this](const Range& range, std::byte* to) { fill(range, to); });
  }

  [[nodiscard]] std::vector<Rank> waiting_for() const override {
    if (receive_ != nullptr) return {rounds_[round_].from};
    std::vector<Rank> unsent;
    for (std::size_t i = 0; i < sends_.size(); ++i) {
      if (sends_[i] != nullptr) unsent.push_back(rounds_[i].to);
    }
    return unsent;
  }

 private:
  using Kind = DoublingRound::Kind;
  // Memory for four messages: two that rounds take turns in sending, what has come, and the result, where the flags
  // that are known are, and elements that are kept and are in no message.
  static constexpr std::size_t kReceived = 2;
  static constexpr std::size_t kResult = 3;

  [[nodiscard]] std::byte* message(std::size_t index) {
    return reinterpret_cast<std::byte*>(memory_.get()) + index * stride_;
  }
  [[nodiscard]] std::byte* result(std::size_t element) { return message(kResult) + flag_bytes_ + element * element_; }
  [[nodiscard]] std::size_t bytes_of(const DoublingRound& round, const Range& range) const {
    return (round.has_flags() ? flag_bytes_ : 0) + range.size() * element_;
  }

  // What this rank gives, elements of `range`.
  void fill(const Range& range, std::byte* to) const {
    if (range.size() == 0) return;
    const std::byte* from = options_.data + range.begin * size_of(options_.dtype);
    if (wide_) {
      widen(from, options_.dtype, range.size(), reinterpret_cast<std::int64_t*>(to));
    } else {
      kernels::scale_copy(from, options_.dtype, to, options_.dtype, range.size(), options_.prescale);
    }
  }

  // Has the elements of `kept` written where that round needs them: into its message if it sends them and more is to be
  // added, to their places in the result if it does not.
  template <class Write>
  void lay_out(std::size_t round, const Range& kept, const Write& write) {
    const Kind kind = round < rounds_.size() ? rounds_[round].kind : Kind::spread;
    const bool sends_own = kind == Kind::exchange || kind == Kind::hand_in;
    if (!sends_own && kind != Kind::halve) {
      own_ = result(kept.begin);
      write(kept, own_);
      return;
    }
    std::byte* const outgoing = message(round % 2);
    if (flag_bytes_ != 0) std::memcpy(outgoing, message(kResult), flag_bytes_);
    write(rounds_[round].sent, outgoing + flag_bytes_);
    own_ = sends_own ? outgoing + flag_bytes_ : result(rounds_[round].received.begin);
    if (!sends_own) write(rounds_[round].received, own_);
  }

  bool step() override {
    for (; round_ < rounds_.size(); ++round_, begun_ = false) {
      const DoublingRound& now = rounds_[round_];
      if (!begun_) begin(now);
      if (now.from == DoublingRound::kNobody) continue;
      if (receive_ != nullptr && !has_come(*receive_, bytes_of(now, now.received), now.from)) return false;
      receive_.reset();
      if (!now.adds()) continue;
      if (round_ > 0 && !sent(round_ - 1)) return false;  // whose message is the next round's
      add_received(now);
    }
    if (!delivered_ && bytes_ != 0) deliver();
    bool all = true;
    for (std::size_t i = 0; i < sends_.size(); ++i) all = sent(i) && all;
    return all;
  }

  void begin(const DoublingRound& now) {
    begun_ = true;
    if (now.to != DoublingRound::kNobody) {  // first: the partner waits for it
      const bool result_goes = now.kind == Kind::spread || now.kind == Kind::unfold;
      std::byte* const from = !result_goes      ? message(round_ % 2)
                              : now.has_flags() ? message(kResult)
                                                : result(now.sent.begin);
      sends_[round_] = transport_.send(now.to, tag_, {from, bytes_of(now, now.sent)});
    }
    if (now.from != DoublingRound::kNobody) {
      std::byte* const into = now.adds()        ? message(kReceived)
                              : now.has_flags() ? message(kResult)
                                                : result(now.received.begin);
      receive_ = transport_.receive(now.from, tag_, {into, bytes_of(now, now.received)});
    }
  }

  bool sent(std::size_t round) {
    if (sends_[round] != nullptr && sends_[round]->test()) sends_[round].reset();
    return sends_[round] == nullptr;
  }

  // The lower ranks' part comes first, here and at the partner.
  void add_received(const DoublingRound& now) {
    const std::byte* const received = message(kReceived);
    for (std::size_t at = 0; at < flag_bytes_; at += sizeof(std::uint64_t)) {
      std::uint64_t words[2];
      std::memcpy(&words[0], message(kResult) + at, sizeof(std::uint64_t));
      std::memcpy(&words[1], received + at, sizeof(std::uint64_t));
      words[0] |= words[1];
      std::memcpy(message(kResult) + at, &words[0], sizeof(std::uint64_t));
    }
    const Range& range = now.received;
    const std::byte* const own = own_;
    lay_out(round_ + 1, range, [&](const Range& part, std::byte* to) {
      const std::size_t offset = (part.begin - range.begin) * element_;
      const std::byte* partials[] = {received + flag_bytes_ + offset, own + offset};
      if (now.from > transport_.rank()) std::swap(partials[0], partials[1]);
      combine(reduction_, partials, {&to, 1}, part.size(), {now.last, transport_.size()});
    });
  }

  void deliver() {
    delivered_ = true;
    const FlagWords& flags = options_.flags;
    if (flag_bytes_ != 0) {
      std::memcpy(flags.words.data(), message(kResult), flag_bytes_);
      if (flags.vetoed()) return;
    }
    if (options_.count == 0) return;
    if (wide_) {
      narrow(reinterpret_cast<const std::int64_t*>(result(0)), options_.dtype, options_.count, options_.data);
    } else {
      std::memcpy(options_.data, result(0), bytes_ - flag_bytes_);
    }
  }

  transport::Transport& transport_;
  transport::Tag tag_;
  AllreduceOptions options_;
  Reduction reduction_;
  bool wide_;
  std::size_t flag_bytes_;
  std::size_t element_ = 0;  // bytes, as they travel
  std::size_t bytes_ = 0;    // of everything in one message
  std::size_t stride_ = 0;   // from one message's memory to the next
  std::vector<DoublingRound> rounds_;
  std::unique_ptr<std::uint64_t[]> memory_;
  std::byte* own_ = nullptr;  // the elements that the next sum is made of
  std::size_t round_ = 0;
  bool begun_ = false;  // this round's transfers are posted
  bool delivered_ = false;
  std::vector<std::unique_ptr<transport::Transfer>> sends_;  // by round; these go before their memory
  std::unique_ptr<transport::Transfer> receive_;
};

}  // namespace

std::unique_ptr<Operation> start_recursive_doubling_allreduce(const NetworkParts& parts,
                                                              const AllreduceOptions& options, int halvings) {
  return std::make_unique<RecursiveDoubling>(parts, options, halvings);
}

}  // namespace kolo::collectives
