#pragma once
// What a scattered allreduce must do. Communicators that cannot do it must refuse.
#include "kolo/spi/communicator.h"

namespace kolo::test {

void scattered_all_types(Communicator& communicator, Algorithm algorithm);
void scattered_anew_each_time(Communicator& communicator, Algorithm algorithm);
void scattered_veto_leaves_data(Communicator& communicator, Algorithm algorithm);
void scattered_misuse_is_refused(Communicator& communicator, Algorithm algorithm);

}  // namespace kolo::test
