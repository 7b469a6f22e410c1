#include "collectives/scattering.h"

#include <algorithm>
#include <string>

#include "collectives/reduction.h"
#include "kolo/error.h"
#include "kolo/spi/communicator.h"

namespace kolo::collectives {
namespace {

bool within(const std::byte* data, std::size_t bytes, std::span<const std::byte> memory) {
  return data >= memory.data() && bytes <= memory.size() &&
         static_cast<std::size_t>(data - memory.data()) <= memory.size() - bytes;
}

}  // namespace

void check_scattering(const AllreduceOptions& options, const SegmentedBuffer& scattering,
                      std::span<const std::byte> buffer, std::span<const std::byte> home) {
  const auto fail = [](const std::string& what) { throw UsageError("segmented allreduce: " + what); };
  const auto& begins = scattering.begins;
  const std::size_t element = size_of(options.dtype);
  if (begins.empty() || begins.front() != 0) fail("the first segment must begin at element 0");
  if (scattering.segments.size() != begins.size()) {
    fail(std::to_string(scattering.segments.size()) + " addresses for " + std::to_string(begins.size()) + " segments");
  }
  const std::size_t bytes = whole_lines(options.count * element) + SegmentedBuffer::table_bytes(begins.size());
  if (!within(options.data, bytes, buffer)) fail("the registered buffer has no room for the table of segments");
  for (std::size_t piece = 0; piece < begins.size(); ++piece) {
    const std::string name = "segment " + std::to_string(piece);
    const std::size_t end = end_of_piece(scattering, piece, options.count);
    if (begins[piece] > end || begins[piece] % line_grain(options.dtype) != 0) {
      fail(name + " begins at element " + std::to_string(begins[piece]) +
           "; a segment begins at a multiple of 64 bytes, at or before its end");
    }
    const std::byte* place = scattering.segments[piece];
    if (place == nullptr) continue;
    if (!within(place, (end - begins[piece]) * element, home) ||
        static_cast<std::size_t>(place - home.data()) % kCacheLine != 0) {
      fail(name + " is not at a multiple of 64 bytes inside `home`");
    }
  }
}

std::size_t piece_of(const SegmentedBuffer& scattering, std::size_t element) {
  const auto& begins = scattering.begins;
  return static_cast<std::size_t>(std::upper_bound(begins.begin(), begins.end(), element) - begins.begin()) - 1;
}

Run run_from(std::size_t begin, std::size_t end, const SegmentedBuffer& scattering, std::byte* data,
             std::size_t element_bytes) {
  Run run{data + begin * element_bytes, begin, end - begin};
  if (scattering.begins.empty()) return run;
  const std::size_t piece = piece_of(scattering, begin);
  run.count = std::min(end, end_of_piece(scattering, piece, end)) - begin;
  std::byte* const place = scattering.segments[piece];
  if (place != nullptr) run.data = place + (begin - scattering.begins[piece]) * element_bytes;
  return run;
}

}  // namespace kolo::collectives
