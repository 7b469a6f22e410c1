// Bootstrap over MPI. Only non-blocking calls against a deadline: a rank that died makes blocking ones wait for ever.
#include <memory>
#include <thread>

#include "base/environment.h"
#include "cluster/host_name.h"
#include "cluster/launcher.h"
#include "cluster/limits.h"
#include "cluster/make.h"
#include "cluster/mpi_runtime.h"
#include "cluster/placement.h"
#include "kolo/error.h"

namespace kolo::cluster {
namespace {

// One allgather by messages from everybody to everybody, so that a timeout can name who is missing.
struct Exchange {
  std::string mine;
  std::vector<MPI_Request> sends;
  std::vector<std::string> texts;
  std::vector<bool> arrived;
  int waiting_for = 0;
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
    auto exchange = std::make_unique<Exchange>();
    try {
      start(*exchange, mine);
      finish(*exchange);
    } catch (...) {
      comm_.keep();
      static_cast<void>(exchange.release());  // MPI may still read `mine`: lost on purpose
      throw;
    }
    return std::move(exchange->texts);
  }

 private:
  void start(Exchange& exchange, const std::string& mine) {
    const auto size = static_cast<std::size_t>(comm_.size());
    exchange.mine = mine;
    exchange.texts.resize(size);
    exchange.arrived.assign(size, false);
    exchange.texts[static_cast<std::size_t>(comm_.rank())] = mine;
    exchange.arrived[static_cast<std::size_t>(comm_.rank())] = true;
    exchange.waiting_for = comm_.size() - 1;
    const MpiTurn turn;
    for (Rank step = 1; step < comm_.size(); ++step) {
      const Rank to = (comm_.rank() + step) % comm_.size();
      exchange.sends.push_back(MPI_REQUEST_NULL);
      check_mpi(MPI_Isend(exchange.mine.data(), static_cast<int>(mine.size()), MPI_CHAR, to, tag_, comm_.get(),
                          &exchange.sends.back()),
                "MPI_Isend");
    }
  }

  void finish(Exchange& exchange) {
    const base::Deadline deadline(kBootstrapTimeout);
    while (exchange.waiting_for > 0) {
      if (take_one(exchange, deadline)) continue;
      if (deadline.passed()) throw missing(exchange);
      if (while_waiting()) while_waiting()();
      std::this_thread::yield();
    }
    for (MPI_Request& send : exchange.sends) {
      if (!wait_mpi(send, deadline, while_waiting())) throw missing(exchange);
    }
  }

  bool take_one(Exchange& exchange, const base::Deadline& deadline) {
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Status status{};
    MPI_Request request = MPI_REQUEST_NULL;
    {
      const MpiTurn turn;
      int found = 0;
      check_mpi(MPI_Improbe(MPI_ANY_SOURCE, tag_, comm_.get(), &found, &message, &status), "MPI_Improbe");
      if (found == 0) return false;
      int length = 0;
      MPI_Get_count(&status, MPI_CHAR, &length);
      std::string& text = exchange.texts[static_cast<std::size_t>(status.MPI_SOURCE)];
      text.resize(static_cast<std::size_t>(length));
      check_mpi(MPI_Imrecv(text.data(), length, MPI_CHAR, &message, &request), "MPI_Imrecv");
    }
    if (!wait_mpi(request, deadline, while_waiting())) throw missing(exchange);
    exchange.arrived[static_cast<std::size_t>(status.MPI_SOURCE)] = true;
    --exchange.waiting_for;
    return true;
  }

  [[nodiscard]] static TimeoutError missing(const Exchange& exchange) {
    std::vector<Rank> ranks;
    std::string text = "bootstrap over MPI: still waiting for ranks";
    for (std::size_t r = 0; r < exchange.arrived.size(); ++r) {
      if (exchange.arrived[r]) continue;
      ranks.push_back(static_cast<Rank>(r));
      text += " " + std::to_string(r);
    }
    return {ranks, text};
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
