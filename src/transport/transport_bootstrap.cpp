// allgather() after Bruck, Ho, Kipnis, Upfal and Weathersby (1997), for texts of any length. Every rank starts with its
// own and doubles what it has in each round, from ranks ever farther to the right:
//
//   rank 0:  0        0 1        0 1 2 3          in round k it sends what it has to rank r - 2^k, and receives as
//   rank 1:  1        1 2        1 2 3 0          much from rank r + 2^k; the last round only what is missing
//   rank 2:  2   ->   2 3   ->   2 3 0 1
//   rank 3:  3        3 0        3 0 1 2
//
// A message is two: its length, then its bytes.
#include "transport/transport_bootstrap.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/deadline.h"
#include "cluster/host_name.h"
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

void append(std::vector<std::byte>& bytes, const std::string& text) {
  const std::uint64_t length = text.size();
  const auto head = std::as_bytes(std::span(&length, 1));
  const auto body = std::as_bytes(std::span(text));
  bytes.insert(bytes.end(), head.begin(), head.end());
  bytes.insert(bytes.end(), body.begin(), body.end());
}

std::vector<std::string> split(std::span<const std::byte> bytes, std::size_t count) {
  std::vector<std::string> texts;
  while (!bytes.empty()) {
    std::uint64_t length = 0;
    if (bytes.size() < sizeof length) throw BackendError("what a rank says of itself ends within a number");
    std::memcpy(&length, bytes.data(), sizeof length);
    bytes = bytes.subspan(sizeof length);
    if (bytes.size() < length) throw BackendError("what a rank says of itself ends within a text");
    texts.emplace_back(reinterpret_cast<const char*>(bytes.data()), static_cast<std::size_t>(length));
    bytes = bytes.subspan(texts.back().size());
  }
  if (texts.size() != count) {
    throw BackendError("a rank says " + std::to_string(texts.size()) + " texts of ranks where " +
                       std::to_string(count) + " were to come");
  }
  return texts;
}

class TransportBootstrap final : public cluster::Bootstrap {
 public:
  explicit TransportBootstrap(ConversationParts parts) : parts_(std::move(parts)) {
    set_while_waiting(parts_.while_waiting);
    cluster::Place here = cluster::place(parts_.transport->rank(), allgather(cluster::host_key()));
    placement_ = std::move(here.placement);
    placement_.host = cluster::host_name();
    placement_.device = parts_.device;
    local_ranks_ = std::move(here.local_ranks);
  }

  [[nodiscard]] const Placement& placement() const noexcept override { return placement_; }
  [[nodiscard]] const std::vector<Rank>& local_ranks() const noexcept override { return local_ranks_; }

  [[nodiscard]] std::vector<std::string> allgather(const std::string& mine) override {
    const int size = parts_.transport->size();
    const base::Deadline deadline(parts_.timeout);
    std::vector<std::string> texts{mine};  // of this rank and those to the right
    for (int distance = 1; distance < size; distance *= 2) {
      auto round = std::make_shared<Round>();
      const int count = std::min(distance, size - distance);
      for (int i = 0; i < count; ++i) append(round->out, texts[static_cast<std::size_t>(i)]);
      try {
        exchange(*round, distance, deadline);
      } catch (...) {
        parts_.keep(std::move(round));
        throw;
      }
      for (auto& text : split(round->in, static_cast<std::size_t>(count))) texts.push_back(std::move(text));
    }
    std::rotate(texts.begin(), texts.end() - parts_.transport->rank(), texts.end());
    return texts;
  }

 private:
  void exchange(Round& round, int distance, const base::Deadline& deadline) {
    Transport& transport = *parts_.transport;
    const Rank to = (transport.rank() - distance + transport.size()) % transport.size();
    const Rank from = (transport.rank() + distance) % transport.size();
    round.length_out = round.out.size();
    const auto receive_length =
        transport.receive(from, parts_.tag, std::as_writable_bytes(std::span(&round.length_in, 1)));
    const auto send_length = transport.send(to, parts_.tag, std::as_bytes(std::span(&round.length_out, 1)));
    const auto send = transport.send(to, parts_.tag + 1, round.out);
    finish(*receive_length, from, deadline);
    if (round.length_in > kMostBytes) {
      throw BackendError("rank " + std::to_string(from) + " announces " + std::to_string(round.length_in) +
                         " bytes of what ranks say of themselves");
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
        throw TimeoutError({peer}, "still waiting for rank " + std::to_string(peer) + " of the new world");
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
