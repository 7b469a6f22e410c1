// Bootstrap over MPI. Only non-blocking calls against a deadline: a rank that died makes blocking ones wait for ever.
#include <limits>
#include <memory>

#include "base/environment.h"
#include "base/naps.h"
#include "cluster/doubling_gather.h"
#include "cluster/host_name.h"
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

class MpiBootstrap final : public Bootstrap {
 public:
  explicit MpiBootstrap(const void* handle) : comm_(handle, base::Deadline(kBootstrapTimeout)) {
    if (handle == nullptr) check_world_size(comm_.size(), base::get_environment);
    Place here = place(comm_.rank(), allgather(host_key()));
    placement_ = std::move(here.placement);
    placement_.host = host_name();
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
    throw UsageError("what " + std::to_string(comm_.size()) +
                     " ranks say of themselves is more than MPI takes at once");
  }

  [[nodiscard]] static TimeoutError late(Rank rank) {
    return {{rank},
            "bootstrap over MPI: still waiting for rank " + std::to_string(rank) + ", or for one that it waits for"};
  }

  MpiComm comm_;
  int tag_ = 0;
  Placement placement_;
  std::vector<Rank> local_ranks_;
};

}  // namespace

std::unique_ptr<Bootstrap> make_mpi_bootstrap(const void* mpi_comm) {
  require_mpi();
  return std::make_unique<MpiBootstrap>(mpi_comm);
}

}  // namespace kolo::cluster
