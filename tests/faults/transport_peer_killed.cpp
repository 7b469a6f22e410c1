// transport_peer_killed shm|tcp: rank 1 speaks once and dies by SIGKILL; rank 0 must learn it within seconds, by name.
// For mpirun --enable-recovery.
#include <csignal>
#include <cstdio>
#include <string_view>

#include "cluster/make.h"
#include "contract/transport_tools.h"
#include "kolo/error.h"
#include "telemetry/counters.h"
#include "transport/make.h"

namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

// Whether rank 0's end throws what it should in time.
bool sees_the_loss(kolo::transport::Transport& end) {
  const auto begin = Clock::now();
  kolo::test::Bytes into(10);
  const auto transfer = end.receive(1, 1, into);
  try {
    while (!transfer->test() && Clock::now() - begin < 20s) end.wait_for_activity(1s);
  } catch (const kolo::PeerLostError& error) {
    std::printf("transport at rank %d: %s\n", end.rank(), error.what());
    return error.rank() == 1 && Clock::now() - begin < 5s;
  }
  return false;
}

bool memory_fails(kolo::transport::SharedMemory& memory) {
  try {
    static_cast<void>(memory.allocate(100, 20s));
  } catch (const kolo::Error& error) {
    std::printf("memory: %s\n", error.what());
    return true;
  }
  return false;
}

}  // namespace

int main(int, char** arguments) {
  const auto bootstrap = kolo::cluster::make_mpi_bootstrap();
  const auto memory = kolo::transport::make_process_shared_memory(*bootstrap, 30s);
  kolo::telemetry::Counters counters;
  const auto end = std::string_view(arguments[1]) == "tcp" ? kolo::transport::make_tcp(*bootstrap, {}, counters)
                                                           : kolo::transport::make_shm(*bootstrap, *memory, 30s);
  kolo::test::meet(*end);
  if (end->rank() == 1) std::raise(SIGKILL);
  const bool seen = sees_the_loss(*end) && memory_fails(*memory);
  std::printf("rank %d %s\n", end->rank(), seen ? "saw it in time" : "did not see it");
  std::fflush(stdout);
  return seen ? 0 : 1;
}
