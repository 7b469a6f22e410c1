#pragma once
// One rank's end of an ncclComm_t, from its making until it is destroyed or aborted.
//
// It is a non-blocking one: every call may return before its work is done, which ncclCommGetAsyncError then says. That
// is what makes deadlines possible. Whatever goes wrong ends in one abort; from then on every call throws what it was.
#include <chrono>
#include <exception>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/deadline.h"
#include "kolo/types.h"
#include "nccl/library.h"

namespace kolo::nccl {

struct CommParts {
  LibraryPtr library;
  UniqueId id{};
  Rank rank = 0;
  int size = 1;
  std::optional<Rank> world_rank{};  // what errors call this rank, where the group is a part of more
  int max_ctas = 0;                  // blocks of the device that one collective may take; 0: as many as NCCL likes
  std::chrono::milliseconds timeout{std::chrono::seconds(600)};
  std::chrono::milliseconds farewell{std::chrono::seconds(2)};      // for the peers to end too, see end()
  std::chrono::milliseconds abort_limit{std::chrono::seconds(20)};  // after that nobody waits for NCCL's own end
  // Throws PeerLostError where a peer is known to be lost: waits then end at once. Empty: nobody knows. Called in the
  // threads that wait.
  std::function<void()> check_peers;
  // Called before what is in flight is aborted, which the device then passes as if it had been carried out. Does not
  // throw.
  std::function<void()> before_abort;
  // Called first in a new thread in which NCCL is then called: makes the device current there. Does not throw.
  std::function<void()> enter_thread;
};

// Externally synchronized.
class CommHandle {
 public:
  // Meets all other ranks. Throws TimeoutError and BackendError, with nothing left behind.
  explicit CommHandle(const CommParts& parts);
  ~CommHandle() { end(); }
  CommHandle(const CommHandle&) = delete;
  CommHandle& operator=(const CommHandle&) = delete;

  [[nodiscard]] Rank rank() const noexcept { return parts_.rank; }
  [[nodiscard]] int size() const noexcept { return parts_.size; }
  [[nodiscard]] std::chrono::milliseconds timeout() const noexcept { return parts_.timeout; }
  [[nodiscard]] const NcclApi& api() const noexcept { return parts_.library->api(); }

  // Makes the calls as one group, and returns when all of it is enqueued. They return the first error of theirs, which
  // ends the communicator. `what` names it in errors.
  using Calls = std::function<Result(const NcclApi& api, Comm comm)>;
  void issue(std::string_view what, const Calls& calls);
  // Throws what ended it. Else asks for an error of NCCL's and, once a millisecond, for a lost peer, and ends it on
  // one.
  void poll(std::string_view what);
  // Aborts, and throws a TimeoutError.
  [[noreturn]] void time_out(std::string_view what);
  // Aborts for an error that was found elsewhere, and throws that.
  [[noreturn]] void fail(std::exception_ptr error);
  [[nodiscard]] bool failed() const noexcept { return failure_ != nullptr; }
  // Waits until `quiet` says that nothing is in flight, and then as NCCL's own way to end does, for peers that still
  // read memory of this rank; both within the `farewell`. After it, and on an error, the communicator is aborted, and
  // what is in flight counts as failed. Calls throw from then on.
  void end(const std::function<bool()>& quiet = {}) noexcept;
  // Registers a whole piece of ncclMemAlloc's memory with NCCL, until deregister_buffer() or the end of the
  // communicator. False: NCCL refused it. True also where NCCL has no use for a registration. REQUIRES: not ended.
  [[nodiscard]] bool register_buffer(void* memory, std::size_t bytes);
  // Does nothing for memory that is not registered. REQUIRES: no operation in flight uses it.
  void deregister_buffer(const void* memory) noexcept;

 private:
  [[nodiscard]] std::string who() const;
  [[nodiscard]] Result state() const;
  void look_for_peers();
  void check(Result result, std::string_view call);
  [[noreturn]] void fail(Result result, std::string_view call);
  void settle(std::string_view what, const base::Deadline& deadline);
  void give_up() noexcept;
  [[nodiscard]] bool comes_to_rest(const std::function<bool()>& quiet, const base::Deadline& deadline) const noexcept;
  // The communicator is the ending's from here on.
  using Ending = std::function<void(const NcclApi& api, Comm comm)>;
  void leave_to(std::chrono::milliseconds limit, const Ending& ending) noexcept;

  CommParts parts_;
  Comm comm_ = nullptr;
  std::map<const void*, void*> buffers_;  // registered memory, and NCCL's handle of it
  std::exception_ptr failure_;
  base::Deadline::Clock::time_point last_look_{};  // for peers that are lost, while operations are in flight
};

}  // namespace kolo::nccl
