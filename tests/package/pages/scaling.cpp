// The code of docs/scaling.md. Compiled only.
#include "kolo/kolo.h"

void load_batch();
void train_step();

void trace_steps(kolo::Context& context) {
  context.start_timeline("run/timeline");  // all ranks
  for (int step = 0; step < 20; ++step) {
    {
      const kolo::TimelineRange range(context, "data wait");
      load_batch();
    }
    train_step();
  }
  context.stop_timeline();
}
