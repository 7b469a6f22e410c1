#pragma once
// One bucket of a frozen plan, round after round: gradients come in, are reduced, and the results are read where they
// lie. Where that is and what reduces it is the kinds' affair; what travels beside the data is the same.
//
//   host_bucket.h     in memory of the host, by the hosts
//   device_bucket.h   on a device, by the devices
//   staged_bucket.h   on a device, by the hosts
//   share_bucket.h    on a device, by the devices inside a host and by the hosts between hosts
//   solo_bucket.h     nowhere: a rank that is alone
//
// Flag words: [0] kVoid | what close() was given   [1] stamp   [2] ~stamp   [3...] a bit for every tensor that was
// contributed, and behind them what a kind adds. Words are combined by OR over ranks, so stamps agree exactly when
// ([1] & [2]) == 0 afterwards.
//
//   stamp:   round, 32 bits | generation of the plan, 16 | hash of the step fingerprint, 16
#include <cstdint>
#include <span>
#include <vector>

#include "engine/plan.h"
#include "kolo/spi/communicator.h"
#include "kolo/spi/round_notices.h"
#include "kolo/types.h"

namespace kolo::engine {

struct Reduction {
  ReduceOp op = ReduceOp::average;
  double prescale = 1.0;
  double postscale = 1.0;
  Algorithm algorithm = Algorithm::automatic;  // on CPUs
  // What gradients are multiplied by before they are summed over `size` ranks, where that is all that is done to them.
  [[nodiscard]] double whole_scale(int size) const noexcept {
    return prescale * postscale / (op == ReduceOp::average ? size : 1);
  }
};

// What all ranks must agree on in a round.
struct Stamp {
  static constexpr std::uint64_t kFingerprintBits = std::uint64_t{0xffff} << 48;
  std::uint64_t generation = 0;
  std::uint64_t round = 0;
  std::uint64_t fingerprint = 0;  // of GradientReducer::set_step_fingerprint()
  // Two words whose OR over all ranks has a bit in common where these do not agree.
  [[nodiscard]] std::uint64_t word() const noexcept;
  [[nodiscard]] std::uint64_t complement() const noexcept;
};

// pack(), place() and clear_missing() belong to the thread that contributes, until it hands the bucket over for launch;
// launch() and advance() to whoever holds the progress lock.
class Bucket {
 public:
  virtual ~Bucket() = default;
  Bucket(const Bucket&) = delete;
  Bucket& operator=(const Bucket&) = delete;

  // A new round.
  virtual void open(const Stamp& stamp);
  // True when this was the last missing tensor. `slot`: position in the plan's bucket. `ready`: where `data` is ready.
  virtual bool pack(std::size_t slot, const void* data, Stream ready) = 0;
  // As pack(), without a copy, where the bucket can do that: see HostBucket.
  virtual bool place(std::size_t slot, std::byte* data) = 0;
  // Tensors that were not contributed count as zeros.
  virtual void clear_missing() = 0;
  // What was contributed may be gone, and this round fails: it is not read any more. Under the progress lock.
  virtual void let_go_of_contributions() = 0;

  virtual void launch(const Reduction& reduction, bool as_void) = 0;
  // True once complete for this thread: the result may be read, or is ordered in a stream. Throws what the collective
  // throws.
  virtual bool advance() = 0;
  // Whether any of it went on since the last call.
  [[nodiscard]] virtual bool moved() noexcept = 0;
  // `user` may read the results from now on. Nothing to do on the host.
  virtual void hand_to(Stream user) = 0;
  [[nodiscard]] virtual std::span<std::byte> tensor(std::size_t slot, std::size_t bytes) = 0;
  // This rank is among them where its own device is waited for.
  [[nodiscard]] virtual std::vector<Rank> waiting_for() const = 0;
  // Of its reduction, for the timeline: a literal. Null: not known here.
  [[nodiscard]] virtual const char* algorithm() { return nullptr; }

  // It leaves in finish(): by a rank whose step has another round after this one, or has none, and with the rank's
  // notices. REQUIRES: not handed over.
  void close(bool another, RoundNotices::Bits notices) noexcept {
    flags_[0] |= (another ? kAnother : kNoOther) | std::uint64_t{notices} << kNoticesShift;
  }

  // REQUIRES: complete.
  [[nodiscard]] bool voided() const noexcept { return (flags_[0] & kVoid) != 0; }
  [[nodiscard]] bool stamps_agree() const noexcept { return same_round() && same_fingerprint(); }
  [[nodiscard]] bool same_round() const noexcept { return (flags_[1] & flags_[2] & ~Stamp::kFingerprintBits) == 0; }
  [[nodiscard]] bool same_fingerprint() const noexcept {
    return (flags_[1] & flags_[2] & Stamp::kFingerprintBits) == 0;
  }
  // What close() was given by those who closed it.
  [[nodiscard]] bool has_another() const noexcept { return (flags_[0] & kAnother) != 0; }
  [[nodiscard]] bool has_no_other() const noexcept { return (flags_[0] & kNoOther) != 0; }
  [[nodiscard]] RoundNotices::Bits notices() const noexcept {
    return static_cast<RoundNotices::Bits>(flags_[0] >> kNoticesShift);
  }
  [[nodiscard]] bool contributed(std::size_t slot) const noexcept {
    return ((flags_[kFirstBitsWord + slot / 64] >> (slot % 64)) & 1) != 0;
  }

 protected:
  explicit Bucket(const PlannedBucket& plan, std::size_t own_words = 0);

  static constexpr std::uint64_t kVoid = 1;
  static constexpr unsigned kNoticesShift = 1;
  static constexpr std::uint64_t kAnother = std::uint64_t{1} << 62;
  static constexpr std::uint64_t kNoOther = std::uint64_t{1} << 63;
  static constexpr std::size_t kFirstBitsWord = 3;

  // Marks it as contributed; true when it was the last.
  bool take(std::size_t slot) noexcept;
  // For the launch.
  [[nodiscard]] FlagWords flags(bool as_void) noexcept;
  [[nodiscard]] std::uint64_t& own_word(std::size_t index) noexcept { return flags_[first_own_ + index]; }
  [[nodiscard]] const std::vector<PlannedTensor>& tensors() const noexcept { return plan_.tensors; }
  [[nodiscard]] const PlannedBucket& plan() const noexcept { return plan_; }
  [[nodiscard]] std::size_t missing() const noexcept { return missing_; }

 private:
  const PlannedBucket& plan_;
  std::size_t first_own_;
  std::vector<std::uint64_t> flags_;
  std::size_t missing_ = 0;
};

}  // namespace kolo::engine
