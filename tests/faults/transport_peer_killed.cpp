// Rank 1 of a shm world dies by SIGKILL; the others must learn it within seconds, by name. For mpirun
// --enable-recovery.
#include <csignal>
#include <cstdio>
#include <vector>

#include "cluster/make.h"
#include "kolo/error.h"
#include "transport/make.h"

int main() {
  using namespace std::chrono_literals;
  const auto bootstrap = kolo::cluster::make_mpi_bootstrap();
  const auto memory = kolo::transport::make_process_shared_memory(*bootstrap, 30s);
  const auto end = kolo::transport::make_shm(*bootstrap, *memory, 30s);
  if (end->rank() == 1) std::raise(SIGKILL);

  const auto begin = std::chrono::steady_clock::now();
  std::vector<std::byte> into(10);
  const auto transfer = end->receive(1, 1, into);
  bool seen = false;
  try {
    while (!transfer->test() && std::chrono::steady_clock::now() - begin < 20s) end->wait_for_activity(1s);
  } catch (const kolo::PeerLostError& error) {
    std::printf("transport at rank %d: %s\n", end->rank(), error.what());
    seen = error.rank() == 1 && std::chrono::steady_clock::now() - begin < 5s;
  }
  try {
    static_cast<void>(memory->allocate(100, 20s));
    seen = false;
  } catch (const kolo::Error& error) {
    std::printf("memory at rank %d: %s\n", end->rank(), error.what());
  }
  std::printf("rank %d %s\n", end->rank(), seen ? "saw it in time" : "did not see it");
  std::fflush(stdout);
  return seen ? 0 : 1;
}
