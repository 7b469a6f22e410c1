// Bootstrap over MPI. Only non-blocking calls against a deadline: a rank that died makes blocking ones wait for ever.
#include <algorithm>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>

#include "base/environment.h"
#include "base/host_name.h"
#include "base/naps.h"
#include "cluster/creation_notice.h"
#include "cluster/doubling_gather.h"
#include "cluster/launcher.h"
#include "cluster/limits.h"
#include "cluster/make.h"
#include "cluster/mpi_runtime.h"
#include "cluster/placement.h"
#include "kolo/error.h"

namespace kolo::cluster {
namespace {

// One round's memory, which MPI may use after an error.
struct Round {
  std::vector<std::byte> out;
  std::vector<std::byte> in;
  MPI_Request send = MPI_REQUEST_NULL;
};

// The wait of one rank for the others to create the same Context.
class CreationWait {
 public:
  CreationWait(const CreationNotice& notice, const StallWarning& stall) : notice_(notice), stall_(stall) {}

  // One call finds missing ranks, the next one warns: if all ranks have come, no next call follows.
  void look() {
    if (!waited_.empty()) stall_.tell(notice_.describe_wait(std::exchange(waited_, {}), missing_));
    const auto waited = clock_.take();
    if (waited.count() == 0) return;
    missing_ = notice_.missing();
    waited_ = "stall: waited_ms=" + std::to_string(waited.count()) + ": ";
  }

  [[nodiscard]] TimeoutError late() const {
    const auto missing = notice_.missing();
    const std::string waited = "timeout after " + std::to_string(kBootstrapTimeout.count()) + " ms: ";
    return {missing, notice_.describe_wait(waited, missing)};
  }

  [[nodiscard]] MpiComm::Wait of_comm() {
    clock_ = StallClock(stall_.tell ? stall_.interval : std::chrono::milliseconds{0});
    return {[this] { look(); }, [this] { return late(); }};
  }

  // MPI_Init has a limit of its own.
  [[nodiscard]] ExitLimit::Reminder of_init() const {
    if (!stall_.tell) return {};
    return {stall_.interval, [this](std::chrono::milliseconds waited) {
              const std::string text = "stall: waited_ms=" + std::to_string(waited.count()) + ": MPI_Init of ";
              stall_.tell(notice_.describe_wait(text, notice_.missing()));
            }};
  }

 private:
  const CreationNotice& notice_;
  const StallWarning& stall_;
  StallClock clock_{std::chrono::milliseconds{0}};
  std::string waited_;  // what look() has to tell
  std::vector<Rank> missing_;
};

// The ranks of a communicator as ranks of MPI_COMM_WORLD; empty if some are of another world.
std::vector<Rank> ranks_in_world(MPI_Comm comm) {
  const MpiTurn turn;
  MPI_Group world = MPI_GROUP_NULL;
  MPI_Group group = MPI_GROUP_NULL;
  check_mpi(MPI_Comm_group(MPI_COMM_WORLD, &world), "MPI_Comm_group");
  check_mpi(MPI_Comm_group(comm, &group), "MPI_Comm_group");
  int size = 0;
  MPI_Group_size(group, &size);
  std::vector<Rank> ranks(static_cast<std::size_t>(size));
  std::vector<Rank> translated(ranks.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  MPI_Group_translate_ranks(group, size, ranks.data(), world, translated.data());
  MPI_Group_free(&group);
  MPI_Group_free(&world);
  if (std::ranges::find(translated, MPI_UNDEFINED) != translated.end()) translated.clear();
  return translated;
}

class MpiBootstrap final : public Bootstrap {
 public:
  MpiBootstrap(const void* handle, const MpiComm::Wait& wait) : comm_(handle, base::Deadline(kBootstrapTimeout), wait) {
    if (handle == nullptr) check_world_size(comm_.size(), base::get_environment);
    Place here = place_process(comm_.rank(), allgather(process_text()));
    placement_ = std::move(here.placement);
    placement_.host = base::host_name();
    if (handle != nullptr) placement_.device = number_on_host(base::get_environment).value_or(placement_.device);
    local_ranks_ = std::move(here.local_ranks);
  }

  [[nodiscard]] const Placement& placement() const noexcept override { return placement_; }
  [[nodiscard]] const std::vector<Rank>& local_ranks() const noexcept override { return local_ranks_; }

  [[nodiscard]] std::vector<std::string> allgather(const std::string& mine) override {
    tag_ = (tag_ + 1) % 1024;  // ranks are at most one call apart
    const base::Deadline deadline(kBootstrapTimeout);
    DoublingGather gather(comm_.rank(), comm_.size(), mine);
    while (gather.more()) {
      auto round = std::make_unique<Round>();
      round->out = gather.outgoing();
      try {
        exchange(*round, gather.to(), gather.from(), deadline);
      } catch (...) {
        comm_.keep();
        static_cast<void>(round.release());  // lost on purpose
        throw;
      }
      gather.take(round->in);
    }
    return std::move(gather).all();
  }

 private:
  void exchange(Round& round, Rank to, Rank from, const base::Deadline& deadline) {
    {
      const MpiTurn turn;
      check_mpi(MPI_Isend(round.out.data(), length_of(round.out), MPI_BYTE, to, tag_, comm_.get(), &round.send),
                "MPI_Isend");
    }
    if (!receive(round.in, from, deadline)) throw late(from);
    if (!wait_mpi(round.send, deadline, while_waiting())) throw late(to);
  }

  bool receive(std::vector<std::byte>& into, Rank from, const base::Deadline& deadline) {
    MPI_Request request = MPI_REQUEST_NULL;
    base::Naps naps;
    while (!begin_receive(into, from, request)) {
      if (deadline.passed()) return false;
      if (while_waiting()) while_waiting()();
      naps.take();
    }
    return wait_mpi(request, deadline, while_waiting());
  }

  // Whether its message has come so far that it can be received.
  bool begin_receive(std::vector<std::byte>& into, Rank from, MPI_Request& request) {
    const MpiTurn turn;
    int found = 0;
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Status status{};
    check_mpi(MPI_Improbe(from, tag_, comm_.get(), &found, &message, &status), "MPI_Improbe");
    if (found == 0) return false;
    int length = 0;
    MPI_Get_count(&status, MPI_BYTE, &length);
    into.resize(static_cast<std::size_t>(length));
    check_mpi(MPI_Imrecv(into.data(), length, MPI_BYTE, &message, &request), "MPI_Imrecv");
    return true;
  }

  [[nodiscard]] int length_of(const std::vector<std::byte>& bytes) const {
    if (bytes.size() <= static_cast<std::size_t>(std::numeric_limits<int>::max()))
      return static_cast<int>(bytes.size());
    throw UsageError("bootstrap over MPI: " + std::to_string(bytes.size()) + " bytes for " +
                     std::to_string(comm_.size()) + " ranks are more than one MPI message can hold");
  }

  [[nodiscard]] static TimeoutError late(Rank rank) {
    return {{rank},
            "bootstrap over MPI: timeout after " + std::to_string(kBootstrapTimeout.count()) +
                " ms: waiting for rank " + std::to_string(rank) + ", or for a rank for which that rank waits"};
  }

  MpiComm comm_;
  int tag_ = 0;
  Placement placement_;
  std::vector<Rank> local_ranks_;
};

}  // namespace

std::unique_ptr<Bootstrap> make_mpi_bootstrap(const void* mpi_comm, const StallWarning& stall) {
  const auto mine = launched_rank(base::get_environment);
  if (mpi_comm == nullptr) {
    const CreationNotice notice(mine, {});
    CreationWait wait(notice, stall);
    require_mpi(wait.of_init());
    return std::make_unique<MpiBootstrap>(mpi_comm, wait.of_comm());
  }
  require_mpi();
  const MPI_Comm comm = *static_cast<const MPI_Comm*>(mpi_comm);
  std::vector<Rank> members;
  if (comm != MPI_COMM_NULL) members = ranks_in_world(comm);
  const CreationNotice notice(members.empty() ? std::nullopt : mine, members);
  CreationWait wait(notice, stall);
  return std::make_unique<MpiBootstrap>(mpi_comm, wait.of_comm());
}

}  // namespace kolo::cluster
