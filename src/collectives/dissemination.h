#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kolo/types.h"
#include "transport/transport.h"

namespace kolo::collectives {

// OR of a few words over all ranks, in ceil(log2 p) rounds; without words a barrier. A piece of other operations.
class Dissemination {
 public:
  // `words` receives the result; it must outlive this.
  Dissemination(transport::Transport& transport, transport::Tag tag, std::span<std::uint64_t> words);
  // Without waiting; true once complete.
  bool advance();
  [[nodiscard]] std::vector<Rank> waiting_for() const;

 private:
  void begin_round();

  transport::Transport& transport_;
  transport::Tag tag_;
  std::span<std::uint64_t> words_;
  int distance_ = 1;
  bool begun_ = false;  // this round's transfers are posted
  std::vector<std::uint64_t> out_;
  std::vector<std::uint64_t> in_;
  std::unique_ptr<transport::Transfer> send_;
  std::unique_ptr<transport::Transfer> receive_;
};

}  // namespace kolo::collectives
