// The probe times the collectives that the cost model prices, so its values contain what these meet: the transport, the
// waiting and shared cores.
//
//   recursive doubling, one element   one message each way: alpha
//   ring, 8 segments a block          16 segments each way: bytes x beta
#include "comm/probe_link.h"

#include <algorithm>
#include <string>

#include "base/deadline.h"
#include "comm/make.h"
#include "kolo/error.h"
#include "kolo/spi/communicator.h"
#include "transport/subset.h"

namespace kolo::comm {
namespace {

constexpr std::size_t kSegments = 8;  // of a block: those that follow hide the latency of the first one
constexpr double kLeastUs = 1e-6;     // for a time that the clock does not resolve

// The median time of a rank; of the two ranks, the larger one.
double time_us(Communicator& pair, const AllreduceOptions& options, int trials, const base::Deadline& deadline) {
  using Clock = std::chrono::steady_clock;
  const auto left = [&] { return std::chrono::duration_cast<std::chrono::milliseconds>(deadline.left()); };
  std::vector<double> times;
  for (int trial = -1; trial < trials; ++trial) {  // the first one warms up
    const auto start = Clock::now();
    pair.allreduce(options, left());
    const std::chrono::duration<double, std::micro> took = Clock::now() - start;
    if (trial >= 0) times.push_back(took.count());
  }
  std::ranges::nth_element(times, times.begin() + trials / 2);
  double median = std::max(kLeastUs, times[static_cast<std::size_t>(trials / 2)]);
  AllreduceOptions larger{.data = reinterpret_cast<std::byte*>(&median), .count = 1, .dtype = DType::f64};
  larger.op = ReduceOp::max;
  larger.algorithm = Algorithm::recursive_doubling;
  pair.allreduce(larger, left());
  return median;
}

LinkCosts probe(const AlgorithmicParts& parts, std::vector<float>& memory, const base::Deadline& deadline) {
  const auto pair = make_algorithmic(parts);
  memory.assign(2 * kSegments * parts.ring_segment_bytes / sizeof(float), 0.0F);
  AllreduceOptions options{.data = reinterpret_cast<std::byte*>(memory.data()), .count = 1};
  options.algorithm = Algorithm::recursive_doubling;
  const double alpha_us = time_us(*pair, options, 31, deadline);
  options.count = memory.size();
  options.algorithm = Algorithm::ring;
  const double stream_us = time_us(*pair, options, 5, deadline);
  return {alpha_us, stream_us / static_cast<double>(memory.size() * sizeof(float))};
}

}  // namespace

LinkCosts probe_link(transport::Transport& transport, Rank peer, transport::Tag first_tag, std::vector<float>& memory,
                     std::chrono::milliseconds timeout) {
  const Rank self = transport.rank();
  const auto pair = transport::make_subset(transport, {std::min(self, peer), std::max(self, peer)});
  try {
    return probe({.transport = pair.get(), .first_tag = first_tag, .tag_count = kProbeTags}, memory,
                 base::Deadline(timeout));
  } catch (const TimeoutError&) {  // names a rank of the pair
    throw TimeoutError({peer}, "probe of the link between ranks " + std::to_string(self) + " and " +
                                   std::to_string(peer) + ": not complete after " + std::to_string(timeout.count()) +
                                   " ms; waiting for rank " + std::to_string(peer));
  }
}

}  // namespace kolo::comm
