#pragma once
// All ranks of an operation in one thread: they advance in a seeded random order, so that every run is another
// interleaving and can be repeated. Counts what each rank sends.
#include <functional>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "collectives/network.h"
#include "support/faulty_transport.h"
#include "transport/make.h"

namespace kolo::collectives::test {

struct Traffic {
  std::size_t messages = 0;
  std::size_t bytes = 0;
  std::size_t longest = 0;
  std::size_t in_flight_max = 0;  // sends begun and not seen complete, at once
};

class CountedTransfer final : public transport::Transfer {
 public:
  CountedTransfer(std::unique_ptr<transport::Transfer> inner, std::shared_ptr<std::size_t> in_flight)
      : inner_(std::move(inner)), in_flight_(std::move(in_flight)) {}
  ~CountedTransfer() override { --*in_flight_; }
  CountedTransfer(const CountedTransfer&) = delete;
  CountedTransfer& operator=(const CountedTransfer&) = delete;
  bool test() override { return inner_->test(); }
  [[nodiscard]] std::size_t size() const noexcept override { return inner_->size(); }

 private:
  std::unique_ptr<transport::Transfer> inner_;
  std::shared_ptr<std::size_t> in_flight_;
};

class CountingTransport final : public transport::Transport {
 public:
  CountingTransport(std::unique_ptr<transport::Transport> inner, Traffic& traffic)
      : inner_(std::move(inner)), traffic_(traffic) {}
  [[nodiscard]] Rank rank() const noexcept override { return inner_->rank(); }
  [[nodiscard]] int size() const noexcept override { return inner_->size(); }
  [[nodiscard]] std::unique_ptr<transport::Transfer> send(Rank to, transport::Tag tag,
                                                          std::span<const std::byte> data) override {
    ++traffic_.messages;
    traffic_.bytes += data.size();
    traffic_.longest = std::max(traffic_.longest, data.size());
    traffic_.in_flight_max = std::max(traffic_.in_flight_max, ++*in_flight_);
    return std::make_unique<CountedTransfer>(inner_->send(to, tag, data), in_flight_);
  }
  [[nodiscard]] std::unique_ptr<transport::Transfer> receive(Rank from, transport::Tag tag,
                                                             std::span<std::byte> into) override {
    return inner_->receive(from, tag, into);
  }
  void wait_for_activity(std::chrono::microseconds at_most) override { inner_->wait_for_activity(at_most); }
  void wake() noexcept override { inner_->wake(); }

 private:
  std::unique_ptr<transport::Transport> inner_;
  Traffic& traffic_;
  std::shared_ptr<std::size_t> in_flight_ = std::make_shared<std::size_t>(0);
};

class Network {
 public:
  // `faults` are those of rank 0; their seed is also that of the interleaving.
  explicit Network(int size, const transport::Faults& faults = {}) : traffic_(at(size)), random_(faults.seed) {
    for (auto& inner : transport::make_inproc(size)) {
      const std::size_t rank = transports_.size();
      if (rank == 0) inner = transport::make_faulty(std::move(inner), faults);
      transports_.push_back(std::make_unique<CountingTransport>(std::move(inner), traffic_[rank]));
      groups_.push_back(std::make_shared<Group>());
      groups_.back()->transport = transports_.back().get();
    }
  }

  // Runs one operation on all ranks to its end. Throws what a rank throws, and when nothing has ended after very many
  // turns.
  void run(const std::function<std::unique_ptr<Operation>(const NetworkParts&)>& start) {
    std::vector<std::unique_ptr<Operation>> operations;
    std::vector<std::size_t> open;
    for (auto& group : groups_) {
      open.push_back(operations.size());
      operations.push_back(start({group, tag_, segment_bytes}));
    }
    tag_ += kTagsPerOperation;
    for (std::size_t idle = 0; !open.empty(); ++idle) {
      if (idle == kMostTurns) throw std::runtime_error("the operation does not end");
      const std::size_t chosen = random_() % open.size();
      if (!operations[open[chosen]]->advance()) continue;
      open.erase(open.begin() + static_cast<std::ptrdiff_t>(chosen));
    }
  }

  [[nodiscard]] int size() const { return static_cast<int>(groups_.size()); }
  [[nodiscard]] const Traffic& traffic(int rank) const { return traffic_[at(rank)]; }
  void forget_traffic() { traffic_.assign(traffic_.size(), {}); }

  std::size_t segment_bytes = 60 * 1024;

 private:
  static constexpr std::size_t kMostTurns = 2'000'000;
  static std::size_t at(int rank) { return static_cast<std::size_t>(rank); }

  std::vector<Traffic> traffic_;
  std::vector<std::unique_ptr<transport::Transport>> transports_;
  std::vector<std::shared_ptr<Group>> groups_;
  transport::Tag tag_ = 0;
  std::mt19937_64 random_;
};

// Recursive doubling whose first rounds halve.
template <int kHalvings>
std::unique_ptr<Operation> start_recursive_doubling(const NetworkParts& parts, const AllreduceOptions& options) {
  return start_recursive_doubling_allreduce(parts, options, kHalvings);
}

}  // namespace kolo::collectives::test
