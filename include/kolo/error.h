#pragma once
// The exceptions of kolo.
//
//   try {
//     context->run([&] { train(*context); });
//   } catch (const kolo::PeerLostError& error) {
//     std::fprintf(stderr, "rank %d is lost: %s\n", error.rank(), error.what());
//   }
//
// docs/errors.md says for each error what still works afterwards.
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "kolo/detail/export.h"
#include "kolo/types.h"

namespace KOLO_EXPORT kolo {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A mistake of the caller, usually found before anything is reduced or changed. If one rank refuses a request, every
// rank throws this error with the same text.
class UsageError : public Error {
 public:
  using Error::Error;
};

// Ranks passed different arguments to one operation, or their weights differ. Every rank throws it; the text names the
// tensor, the ranks and both values. The request was not executed, and its name can be submitted again. If weights
// differ, no weight was updated.
class MismatchError : public Error {
 public:
  using Error::Error;
};

// A rank, possibly this one, is lost: its process ended, its host is unreachable, or the other ranks have excluded it.
// The Context is unusable: later collectives rethrow this error, but Context::survivors() still works.
class PeerLostError : public Error {
 public:
  PeerLostError(Rank lost, const std::string& what) : Error(what), rank_(lost) {}
  [[nodiscard]] Rank rank() const noexcept { return rank_; }

 private:
  Rank rank_;
};

// Training code of another rank threw inside Context::run(); what() contains the message of that exception. The
// gradients of this step were not reduced, and the next step works. If a Communicator call or the constructor of
// DistributedOptimizer throws PeerFailedError, the Context is unusable.
class PeerFailedError : public Error {
 public:
  PeerFailedError(std::vector<Rank> failed, const std::string& what, std::uint64_t failure = 0)
      : Error(what), ranks_(std::move(failed)), failure_(failure) {}
  [[nodiscard]] const std::vector<Rank>& ranks() const noexcept { return ranks_; }
  // Identifies the failure: equal in all copies of the error on all ranks. 0: not known.
  [[nodiscard]] std::uint64_t failure() const noexcept { return failure_; }

 private:
  std::vector<Rank> ranks_;
  std::uint64_t failure_;
};

// A deadline passed. The text names the operation and the missing ranks. After a TimeoutError of step() or of a
// Communicator call the Context is unusable. After one of Work::wait(), Context::failure() tells whether the Context is
// usable, and Work::done() whether the operation continues.
class TimeoutError : public Error {
 public:
  TimeoutError(std::vector<Rank> missing, const std::string& what) : Error(what), missing_(std::move(missing)) {}
  [[nodiscard]] const std::vector<Rank>& missing() const noexcept { return missing_; }

 private:
  std::vector<Rank> missing_;
};

// MPI, the operating system or another library failed; the text contains its message. Context::failure() tells whether
// the Context is still usable.
class BackendError : public Error {
 public:
  using Error::Error;
};

}  // namespace kolo
