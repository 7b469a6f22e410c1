#include "runtime/wires.h"

#include <algorithm>
#include <bit>
#include <filesystem>
#include <string>
#include <system_error>

#include "cluster/limits.h"
#include "comm/make.h"
#include "kolo/error.h"
#include "kolo/spi/communicator.h"
#include "transport/make.h"
#include "transport/subset.h"

namespace kolo::runtime {
namespace {

// Of a communicator for one bucket, which is made for each of each new plan; and of one for whatever is started by name
// or by hand, at once. An operation takes two; a hierarchical one two for each piece.
constexpr transport::Tag kFewTags = 256;
constexpr transport::Tag kManyTags = 1 << 16;
constexpr transport::Tag kConversations = 256;  // two tags each, the last there are

// InfiniBand, RoCE, Omni-Path and the like are all listed here by the kernel.
bool has_rdma_device() {
  std::error_code none;
  return std::filesystem::directory_iterator("/sys/class/infiniband", none) != std::filesystem::directory_iterator();
}

std::string name_of(Network setting) {
  if (setting == Network::automatic) return "auto";
  return setting == Network::mpi ? "mpi" : "tcp";
}

Hosts gather_hosts(cluster::Bootstrap& bootstrap) {
  const Placement& placement = bootstrap.placement();
  Hosts hosts(static_cast<std::size_t>(placement.cross_size));
  const auto numbers = bootstrap.allgather(std::to_string(placement.cross_rank));
  for (std::size_t r = 0; r < numbers.size(); ++r) {
    hosts.at(static_cast<std::size_t>(std::stoi(numbers[r]))).push_back(static_cast<Rank>(r));
  }
  return hosts;
}

// Some MPIs have few tags in all.
transport::Tag many_tags(const Wires& wires) {
  return std::min(kManyTags, std::bit_floor(wires.transport->last_tag() / 16));
}

comm::AlgorithmicParts parts_over(Wires& wires, const Config& config, telemetry::Counters& counters,
                                  transport::Tag tags = kFewTags) {
  comm::AlgorithmicParts parts;
  parts.transport = wires.transport.get();
  parts.shared_memory = wires.memory.get();
  parts.counters = &counters;
  parts.first_tag = take_tags(wires, tags);
  parts.tag_count = tags;
  parts.ring_segment_bytes = config.ring_segment_bytes;
  parts.spin_iterations = config.spin_iterations;
  parts.local_cores = wires.local_cores;
  parts.timeout = config.timeout;
  return parts;
}

}  // namespace

bool some_host_has_several(const Hosts& hosts) {
  return std::any_of(hosts.begin(), hosts.end(), [](const auto& ranks) { return ranks.size() > 1; });
}

Network choose_network(cluster::Bootstrap& bootstrap, Network setting) {
  const auto all = bootstrap.allgather(name_of(setting) + (has_rdma_device() ? " rdma" : " plain"));
  const auto setting_of = [](const std::string& text) { return text.substr(0, text.find(' ')); };
  for (std::size_t r = 1; r < all.size(); ++r) {
    if (setting_of(all[r]) == setting_of(all[0])) continue;
    throw UsageError("KOLO_NETWORK is " + setting_of(all[0]) + " on rank 0 and " + setting_of(all[r]) + " on rank " +
                     std::to_string(r) + ". Set the same value on all ranks (mpirun -x KOLO_NETWORK)");
  }
  if (setting != Network::automatic) return setting;
  const bool everywhere = std::ranges::all_of(all, [](const auto& text) { return text.ends_with(" rdma"); });
  return everywhere ? Network::mpi : Network::tcp;
}

Wires make_process_wires(cluster::Bootstrap& bootstrap, const void* mpi_comm, telemetry::Counters& counters,
                         const Config& config) {
  Wires wires;
  if (bootstrap.placement().size == 1) return wires;
  const auto timeout = std::max(config.timeout, cluster::kSetUpTimeout);
  wires.hosts = gather_hosts(bootstrap);
  wires.local_cores = bootstrap.placement().local_cores;
  if (some_host_has_several(wires.hosts)) {
    wires.memory = transport::make_process_shared_memory(bootstrap, timeout);
  }
  if (wires.hosts.size() == 1) {
    wires.transport = transport::make_shm(bootstrap, *wires.memory, timeout);
    return wires;
  }
  wires.way = choose_network(bootstrap, config.network) == Network::mpi ? Way::mpi : Way::tcp;
  wires.transport = wires.way == Way::mpi
                        ? transport::make_mpi(mpi_comm, counters)
                        : transport::make_tcp(bootstrap, {config.interface, config.tcp_congestion}, counters);
  return wires;
}

std::vector<Wires> make_thread_wires(const Hosts& hosts) {
  std::size_t size = 0;
  for (const auto& ranks : hosts) size += ranks.size();
  std::vector<Wires> all(size);
  if (size == 1) return all;
  auto transports = transport::make_inproc(static_cast<int>(size));
  for (std::size_t r = 0; r < size; ++r) {
    all[r].hosts = hosts;
    all[r].transport = std::move(transports[r]);
  }
  if (!some_host_has_several(hosts)) return all;
  for (const auto& ranks : hosts) {
    auto memories = transport::make_inproc_shared_memory(static_cast<int>(ranks.size()));
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      all[static_cast<std::size_t>(ranks[i])].memory = std::move(memories[i]);
    }
  }
  return all;
}

transport::Tag take_tags(Wires& wires, transport::Tag count) {
  if (wires.transport == nullptr) return 0;
  const transport::Tag last = wires.transport->last_tag() - 2 * kConversations;
  if (count > last || wires.next_tag > last - count) {
    throw BackendError(
        "all " + std::to_string(last) +
        " tags of the transport are in use: each bucket of each new plan takes one. Create a new Context");
  }
  const transport::Tag first = wires.next_tag;
  wires.next_tag += count;
  return first;
}

transport::Tag conversation_tag(const Wires& wires, std::uint64_t epoch) {
  return wires.transport->last_tag() - 2 * static_cast<transport::Tag>(epoch % kConversations) - 1;
}

std::unique_ptr<Communicator> make_communicator(Wires& wires, const Config& config, telemetry::Counters& counters,
                                                Use use) {
  if (wires.transport == nullptr) return comm::make_self();
  comm::AlgorithmicParts parts =
      parts_over(wires, config, counters, use == Use::one_by_one ? kFewTags : many_tags(wires));
  parts.calls = wires.calls;
  if (wires.hosts.size() > 1 && wires.memory != nullptr) return comm::make_hierarchical({parts, wires.hosts});
  return comm::make_algorithmic(parts);
}

std::size_t shares_of(const Hosts& hosts) {
  const auto smallest = std::ranges::min_element(hosts, {}, [](const auto& ranks) { return ranks.size(); });
  return smallest == hosts.end() ? 0 : smallest->size();
}

std::vector<Rank> share_ranks(const Hosts& hosts, Rank rank) {
  for (std::size_t share = 0; share < shares_of(hosts); ++share) {
    std::vector<Rank> ranks;
    for (const auto& host : hosts) ranks.push_back(host[share]);
    if (std::ranges::find(ranks, rank) != ranks.end()) return ranks;
  }
  return {};
}

std::unique_ptr<Communicator> make_share_communicator(Wires& wires, const Config& config,
                                                      telemetry::Counters& counters) {
  comm::AlgorithmicParts parts = parts_over(wires, config, counters);  // its tags are taken on every rank
  const auto ranks = share_ranks(wires.hosts, wires.transport->rank());
  if (ranks.empty()) return nullptr;
  if (wires.of_share == nullptr) wires.of_share = transport::make_subset(*wires.transport, ranks);
  parts.transport = wires.of_share.get();
  parts.shared_memory = nullptr;
  parts.hosts = static_cast<int>(wires.hosts.size());
  parts.sharing = static_cast<int>(shares_of(wires.hosts));
  return comm::make_algorithmic(parts);
}

}  // namespace kolo::runtime
