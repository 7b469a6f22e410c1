#pragma once
// A world of ranks that are processes, for one case: its own Context, and nobody leaves before all are done.
#include <gmock/gmock.h>
#include <mpi.h>

#include "multirank/engine/world.h"

namespace kolo::test {

// One of the ranks does what the others do not.
struct Roles {
  Rank odd = 0;
  bool is_odd = false;
};

// `call` must throw an Exception whose text holds all of `texts`.
template <class Exception, class Call>
void expect_error(Call call, const std::vector<std::string>& texts) {
  try {
    call();
    ADD_FAILURE() << "no error";
  } catch (const Exception& error) {
    for (const auto& text : texts) EXPECT_THAT(error.what(), testing::HasSubstr(text));
  }
}

// Everybody comes here, whatever went wrong before.
inline void meet_all() { MPI_Barrier(MPI_COMM_WORLD); }

// Runs body(context, roles) with each of: the root of the control tree, an inner rank (where there is one) and the last
// rank as the odd one.
template <class Body>
void for_every_odd_rank(Config config, Body body) {
  config.network = Config::from_environment().network;  // between emulated hosts either
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (const Rank odd : {0, 1, size - 1}) {
    if (odd == 1 && size == 2) continue;
    SCOPED_TRACE("the odd rank is " + std::to_string(odd) + " of " + std::to_string(size));
    auto context = Context::create(config);
    try {
      body(*context, Roles{odd, context->rank() == odd});
    } catch (const std::exception& error) {
      ADD_FAILURE() << "an error that was not expected: " << error.what();
    }
    meet_all();
  }
}

}  // namespace kolo::test
