#pragma once
// What kolo throws. docs/errors.md says for each what state things are in afterwards.
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "kolo/export.h"
#include "kolo/types.h"

namespace KOLO_EXPORT kolo {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A mistake of the caller, found before anything was reduced or changed. If an operation by name is
// refused, every rank throws this error with the same text.
class UsageError : public Error {
 public:
  using Error::Error;
};

// Ranks disagree. Thrown on every rank of the group; names the tensor, the ranks and both values. The operation was
// not executed, its name is free again and other operations go on.
class MismatchError : public Error {
 public:
  using Error::Error;
};

// A rank is lost (or this one: given up by the others). The group cannot be used any more: later calls rethrow this.
class PeerLostError : public Error {
 public:
  PeerLostError(Rank lost, const std::string& what) : Error(what), rank_(lost) {}
  [[nodiscard]] Rank rank() const noexcept { return rank_; }

 private:
  Rank rank_;
};

// Training code of another rank threw inside Context::run; `what` carries its text. This round's gradients were not
// reduced. Out of a collective called directly, or of making an optimizer: the group has ended (docs/errors.md).
class PeerFailedError : public Error {
 public:
  PeerFailedError(std::vector<Rank> failed, const std::string& what, std::uint64_t failure = 0)
      : Error(what), ranks_(std::move(failed)), failure_(failure) {}
  [[nodiscard]] const std::vector<Rank>& ranks() const noexcept { return ranks_; }
  // Which failure it tells of: one number on all ranks of the group, in every copy of the error. 0 where the round that
  // failed tells it itself.
  [[nodiscard]] std::uint64_t failure() const noexcept { return failure_; }

 private:
  std::vector<Rank> ranks_;
  std::uint64_t failure_;
};

// A deadline passed. Names who had not arrived, and at what. After this on a collective the group cannot be used any
// more, because its memory may still be written to.
class TimeoutError : public Error {
 public:
  TimeoutError(std::vector<Rank> missing, const std::string& what) : Error(what), missing_(std::move(missing)) {}
  [[nodiscard]] const std::vector<Rank>& missing() const noexcept { return missing_; }

 private:
  std::vector<Rank> missing_;
};

// MPI, the operating system or another library refused; `what` carries its own words.
class BackendError : public Error {
 public:
  using Error::Error;
};

}  // namespace kolo
