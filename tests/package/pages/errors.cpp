// The examples of docs/errors.md. They are compiled, not run.
#include <functional>
#include <stdexcept>

#include "kolo/kolo.h"

struct BadBatch : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Skips a batch on all ranks if one rank throws in it. `batch` runs forward, backward and step().
void train_or_skip(kolo::Context& context, const std::function<void()>& batch) {
  try {
    context.run(batch);
  } catch (const BadBatch& error) {  // thrown on this rank
    context.log(kolo::LogLevel::warn, error.what());
  } catch (const kolo::PeerFailedError& error) {  // thrown on another rank
    context.log(kolo::LogLevel::warn, error.what());
  }
  if (const auto failure = context.failure()) std::rethrow_exception(failure);
}
