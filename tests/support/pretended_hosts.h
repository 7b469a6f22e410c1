#pragma once
// Ranks of this machine, threads or processes, that are said to stand on several hosts.
#include <memory>
#include <string>
#include <vector>

#include "cluster/bootstrap.h"
#include "cluster/placement.h"
#include "kolo/types.h"
#include "transport/make.h"

namespace kolo::test {

// The host of each rank, by rank: {0, 1, 0, 1} is two hosts of two, numbered in turns.
using HostLayout = std::vector<int>;

inline std::string text_of(const HostLayout& layout) {
  std::string text;
  for (const int host : layout) text += std::to_string(host);
  return text;
}

// The ranks of each host.
inline std::vector<std::vector<Rank>> hosts_of(const HostLayout& layout) {
  std::vector<std::vector<Rank>> hosts;
  for (std::size_t r = 0; r < layout.size(); ++r) {
    const auto host = static_cast<std::size_t>(layout[r]);
    if (hosts.size() <= host) hosts.resize(host + 1);
    hosts[host].push_back(static_cast<Rank>(r));
  }
  return hosts;
}

// Processes: what `real` knows, but for who stands where. The devices are those of the one host.
class PretendedHosts final : public cluster::Bootstrap {
 public:
  PretendedHosts(cluster::Bootstrap& real, const HostLayout& layout) : real_(real) {
    std::vector<std::string> keys;
    for (const int host : layout) keys.push_back(std::to_string(host));
    place_ = cluster::place(real.placement().rank, keys);
    place_.placement.device = real.placement().device;
  }
  [[nodiscard]] const Placement& placement() const noexcept override { return place_.placement; }
  [[nodiscard]] const std::vector<Rank>& local_ranks() const noexcept override { return place_.local_ranks; }
  [[nodiscard]] std::vector<std::string> allgather(const std::string& mine) override { return real_.allgather(mine); }

 private:
  cluster::Bootstrap& real_;
  cluster::Place place_;
};

// Threads, by rank: the memory that it shares with the ranks of its host.
inline std::vector<std::unique_ptr<transport::SharedMemory>> make_memories(const HostLayout& layout) {
  std::vector<std::unique_ptr<transport::SharedMemory>> memories(layout.size());
  for (const auto& ranks : hosts_of(layout)) {
    auto host = transport::make_inproc_shared_memory(static_cast<int>(ranks.size()));
    for (std::size_t i = 0; i < ranks.size(); ++i) memories[static_cast<std::size_t>(ranks[i])] = std::move(host[i]);
  }
  return memories;
}

}  // namespace kolo::test
