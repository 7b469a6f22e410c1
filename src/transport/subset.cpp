#include "transport/subset.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "kolo/error.h"

namespace kolo::transport {
namespace {

class SubsetTransport final : public Transport {
 public:
  SubsetTransport(Transport& whole, std::vector<Rank> members, Rank rank)
      : whole_(whole), members_(std::move(members)), rank_(rank) {}

  [[nodiscard]] Rank rank() const noexcept override { return rank_; }
  [[nodiscard]] int size() const noexcept override { return static_cast<int>(members_.size()); }
  [[nodiscard]] std::unique_ptr<Transfer> send(Rank to, Tag tag, std::span<const std::byte> data) override {
    return whole_.send(members_[static_cast<std::size_t>(to)], tag, data);
  }
  [[nodiscard]] std::unique_ptr<Transfer> receive(Rank from, Tag tag, std::span<std::byte> into) override {
    return whole_.receive(members_[static_cast<std::size_t>(from)], tag, into);
  }
  void wait_for_activity(std::chrono::microseconds at_most) override { whole_.wait_for_activity(at_most); }
  void check_peers() override { whole_.check_peers(); }
  void wake() noexcept override { whole_.wake(); }
  [[nodiscard]] std::uint64_t completed() const noexcept override { return whole_.completed(); }
  [[nodiscard]] Tag last_tag() const noexcept override { return whole_.last_tag(); }

 private:
  Transport& whole_;
  std::vector<Rank> members_;
  Rank rank_;
};

}  // namespace

std::unique_ptr<Transport> make_subset(Transport& whole, std::vector<Rank> members) {
  const auto self = std::find(members.begin(), members.end(), whole.rank());
  if (self == members.end()) {
    throw UsageError("rank " + std::to_string(whole.rank()) + " is not a member of its subset");
  }
  for (const Rank member : members) {
    if (member < 0 || member >= whole.size()) {
      throw UsageError("subset: rank " + std::to_string(member) + " is outside a group of " +
                       std::to_string(whole.size()) + " ranks");
    }
  }
  if (std::set<Rank>(members.begin(), members.end()).size() != members.size()) {
    throw UsageError("subset: a rank is listed twice");
  }
  const auto rank = static_cast<Rank>(self - members.begin());
  return std::make_unique<SubsetTransport>(whole, std::move(members), rank);
}

}  // namespace kolo::transport
