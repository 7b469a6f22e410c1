#pragma once
// What ranks tell each other before they make a communicator, and what they must agree on.
#include <functional>
#include <string>
#include <vector>

#include "kolo/types.h"
#include "nccl/nccl_api.h"

namespace kolo::nccl {

// Everybody's text in rank order: cluster::Bootstrap::allgather().
using Exchange = std::function<std::vector<std::string>(const std::string&)>;

struct RankFacts {
  std::string trouble;  // why this rank can take no part; empty: it can
  std::string host;
  std::string device;   // its PCI address
  int version = 0;      // of NCCL
  std::string options;  // settings that must be equal
  std::string network;  // why NCCL will not use the fast one of this host; empty: it will, or there is none
  UniqueId id{};        // of rank 0
};

// Texts that survive a Bootstrap: one line, fields between tabs.
[[nodiscard]] std::string encode(const RankFacts& facts);
[[nodiscard]] RankFacts decode(const std::string& text);  // BackendError for what encode() does not make

// Throws the same error on every rank: UsageError where a rank has no device; MismatchError for different versions and
// settings. That ranks share a device is for the caller to find.
void check_agreement(const std::vector<RankFacts>& ranks);
// All of these, of facts that ranks exchange. Collective.
[[nodiscard]] std::vector<RankFacts> agree(const Exchange& exchange, const RankFacts& mine);

}  // namespace kolo::nccl
