#include "cluster/liveness.h"

#include <utility>

#include "cluster/mpi_exit.h"
#include "kolo/error.h"

namespace kolo::cluster {

void Liveness::report_loss(Rank rank, std::string text) {
  if (lost_.load(std::memory_order_relaxed)) return;
  skip_mpi_finalize();  // it would wait for the lost
  rank_ = rank;
  text_ = std::move(text);
  lost_.store(true, std::memory_order_release);
}

void Liveness::throw_lost() const { throw PeerLostError(rank_, text_); }

}  // namespace kolo::cluster
