#pragma once
// A world of ranks that are threads, for tests of the engine.
#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "kolo/kolo.h"
#include "kolo/spi/communicator.h"
#include "kolo/spi/engine.h"
#include "support/thread_ranks.h"

namespace kolo::test {

inline Config quick(CoordinatorMode mode = CoordinatorMode::automatic) {
  Config config;
  config.timeout = std::chrono::seconds(20);
  config.stall_warning = std::chrono::seconds(5);
  config.coordinator = mode;
  config.log_sink = [](LogLevel, std::string_view) {};
  return config;
}

// The host of each rank, by rank.
using Hosts = std::vector<int>;
inline Hosts one_host(int ranks) { return Hosts(static_cast<std::size_t>(ranks), 0); }

// Runs `body(context)` on every rank of a new world.
template <class Body>
void run_world(const Hosts& hosts, const Config& config, Body body) {
  auto contexts = Context::create_local(hosts, config);
  run_ranks(static_cast<int>(hosts.size()), [&](int rank) { body(*contexts[static_cast<std::size_t>(rank)]); });
}
template <class Body>
void run_world(int ranks, const Config& config, Body body) {
  run_world(one_host(ranks), config, std::move(body));
}

inline Request allreduce(const std::string& name, const std::vector<float>& input, std::vector<float>* output) {
  Request request;
  request.name = name;
  request.sizes = {static_cast<std::int64_t>(input.size())};
  request.input = input.data();
  request.output = output == nullptr ? nullptr : output->data();
  return request;
}

// How many values are not what they should be. (A matcher a value takes longer than all the rest of a test.)
inline std::ptrdiff_t far_from(float wanted, const std::vector<float>& values) {
  return std::ranges::count_if(values, [&](float value) { return !(std::abs(value - wanted) <= 1e-4F); });
}

}  // namespace kolo::test
