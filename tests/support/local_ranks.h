#pragma once
// A world of ranks that are threads, as a program makes it.
#include <functional>

#include "kolo/context.h"
#include "support/thread_ranks.h"

namespace kolo::test {

inline void on_ranks(int ranks, const std::function<void(Context&)>& body) {
  auto contexts = Context::create_local(ranks);
  run_ranks(ranks, [&](int rank) { body(*contexts[static_cast<std::size_t>(rank)]); });
}

}  // namespace kolo::test
