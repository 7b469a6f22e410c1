#pragma once
#include <memory>

#include "collectives/direct_allreduce.h"

namespace kolo::collectives {

// The two buffers of a scattered allreduce as all ranks of the host see them: the one that the operation synchronises
// in, and the one where pieces may lie.
struct ScatteredBuffers {
  std::shared_ptr<DirectBuffer> buffer;
  std::shared_ptr<DirectBuffer> home;
};

// See scattered_allreduce.cpp. Throws UsageError for pieces that `options`, `buffers` and each other do not fit.
[[nodiscard]] std::unique_ptr<Operation> start_scattered_allreduce(std::shared_ptr<Group> group,
                                                                   const ScatteredBuffers& buffers,
                                                                   const AllreduceOptions& options,
                                                                   const Scattering& scattering,
                                                                   const DirectTuning& tuning = {});

}  // namespace kolo::collectives
