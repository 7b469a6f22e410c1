// Prints what a rank knows of cores: those of its mask, those that the ranks of its host share, and its threads.
#include <sched.h>

#include <cstdio>

#include "kolo/kolo.h"

int main() {
  const auto context = kolo::Context::create();
  cpu_set_t mask;
  CPU_ZERO(&mask);
  sched_getaffinity(0, sizeof mask, &mask);
  int first = 0;
  while (first < CPU_SETSIZE && !CPU_ISSET(first, &mask)) ++first;
  const kolo::Placement& here = context->placement();
  std::printf("rank %d: %d from %d, cores %d, threads %d\n", here.rank, CPU_COUNT(&mask), first, here.local_cores,
              here.threads);
}
