// A message is two: its length, then its bytes.
#include "transport/transport_bootstrap.h"

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/deadline.h"
#include "base/host_name.h"
#include "cluster/doubling_gather.h"
#include "cluster/placement.h"
#include "kolo/error.h"

namespace kolo::transport {
namespace {

constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 30;  // of one message: some KiB a rank, of 10,000

// One round's memory, which transfers may use after an error.
struct Round {
  std::uint64_t length_out = 0;
  std::uint64_t length_in = 0;
  std::vector<std::byte> out;
  std::vector<std::byte> in;
};

class TransportBootstrap final : public cluster::Bootstrap {
 public:
  explicit TransportBootstrap(ConversationParts parts) : parts_(std::move(parts)) {
    set_while_waiting(parts_.while_waiting);
    cluster::Place here = cluster::place_process(parts_.transport->rank(), allgather(cluster::process_text()));
    placement_ = std::move(here.placement);
    placement_.host = base::host_name();
    placement_.device = parts_.device;
    local_ranks_ = std::move(here.local_ranks);
  }

  [[nodiscard]] const Placement& placement() const noexcept override { return placement_; }
  [[nodiscard]] const std::vector<Rank>& local_ranks() const noexcept override { return local_ranks_; }

  [[nodiscard]] std::vector<std::string> allgather(const std::string& mine) override {
    const base::Deadline deadline(parts_.timeout);
    cluster::DoublingGather gather(parts_.transport->rank(), parts_.transport->size(), mine);
    while (gather.more()) {
      auto round = std::make_shared<Round>();
      round->out = gather.outgoing();
      try {
        exchange(*round, gather.to(), gather.from(), deadline);
      } catch (...) {
        parts_.keep(std::move(round));
        throw;
      }
      gather.take(round->in);
    }
    return std::move(gather).all();
  }

 private:
  void exchange(Round& round, Rank to, Rank from, const base::Deadline& deadline) {
    Transport& transport = *parts_.transport;
    round.length_out = round.out.size();
    const auto receive_length =
        transport.receive(from, parts_.tag, std::as_writable_bytes(std::span(&round.length_in, 1)));
    const auto send_length = transport.send(to, parts_.tag, std::as_bytes(std::span(&round.length_out, 1)));
    const auto send = transport.send(to, parts_.tag + 1, round.out);
    finish(*receive_length, from, deadline);
    if (round.length_in > kMostBytes) {
      throw BackendError("bootstrap: rank " + std::to_string(from) + " announces " + std::to_string(round.length_in) +
                         " bytes; at most " + std::to_string(kMostBytes) +
                         " are allowed. Do all ranks run the same version of kolo?");
    }
    round.in.resize(static_cast<std::size_t>(round.length_in));
    finish(*transport.receive(from, parts_.tag + 1, round.in), from, deadline);
    finish(*send_length, to, deadline);
    finish(*send, to, deadline);
  }

  void finish(Transfer& transfer, Rank peer, const base::Deadline& deadline) {
    while (true) {
      if (while_waiting()) while_waiting()();  // first: it knows of losses that this transport does not
      if (transfer.test()) return;
      if (deadline.passed()) {
        throw TimeoutError({peer}, "bootstrap: timeout after " + std::to_string(parts_.timeout.count()) +
                                       " ms: waiting for rank " + std::to_string(peer) + " of the new world");
      }
      parts_.transport->wait_for_activity(std::chrono::milliseconds(1));
    }
  }

  ConversationParts parts_;
  Placement placement_;
  std::vector<Rank> local_ranks_;
};

}  // namespace

std::unique_ptr<cluster::Bootstrap> make_transport_bootstrap(ConversationParts parts) {
  return std::make_unique<TransportBootstrap>(std::move(parts));
}

}  // namespace kolo::transport
