// The code of docs/faults.md. Compiled only.
#include <cstddef>
#include <functional>
#include <memory>

#include "kolo/kolo.h"

std::unique_ptr<kolo::Context> recover(kolo::Context& old) {
  for (;;) {
    const std::size_t remaining = old.survivors().size();  // throws if this rank must end
    try {
      return kolo::Context::create_over_survivors(old);
    } catch (const kolo::PeerLostError&) {
      // Try again only if another rank was lost meanwhile.
      if (old.survivors().size() >= remaining) throw;
    }
  }
}

// The model and the wrapped optimizer live outside `train`.
void train_with_recovery(const std::function<void(kolo::Context&)>& train) {
  std::unique_ptr<kolo::Context> context = kolo::Context::create();
  bool done = false;
  while (!done) {
    try {
      context->run([&] { train(*context); });
      done = true;
    } catch (const kolo::PeerLostError& error) {
      if (error.rank() == context->rank()) throw;  // the other ranks have excluded this rank
      context = recover(*context);
    }
  }
  context->shutdown();
}
