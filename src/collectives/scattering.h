#pragma once
// A scattered whole as operations read it: where its pieces end, and where they lie (SegmentedBuffer,
// kolo/communicator.h).
#include <cstddef>
#include <span>

#include "kolo/spi/communicator.h"

namespace kolo::collectives {

// Throws UsageError for pieces that `options`, this rank's memory (of the registered buffer and of the home) and each
// other do not fit.
void check_scattering(const AllreduceOptions& options, const SegmentedBuffer& scattering,
                      std::span<const std::byte> buffer, std::span<const std::byte> home);

// The one that element `element` is of. REQUIRES: there are pieces.
[[nodiscard]] std::size_t piece_of(const SegmentedBuffer& scattering, std::size_t element);
[[nodiscard]] inline std::size_t end_of_piece(const SegmentedBuffer& scattering, std::size_t piece, std::size_t count) {
  return piece + 1 < scattering.begins.size() ? scattering.begins[piece + 1] : count;
}

// Neighbouring elements of one piece, on this rank.
struct Run {
  std::byte* data = nullptr;
  std::size_t begin = 0;  // elements of the whole
  std::size_t count = 0;
};

// The run that begins with element `begin` and goes on to `end` or to where its piece ends. Without pieces all lies at
// `data`, the memory of element 0.
[[nodiscard]] Run run_from(std::size_t begin, std::size_t end, const SegmentedBuffer& scattering, std::byte* data,
                           std::size_t element_bytes);

}  // namespace kolo::collectives
