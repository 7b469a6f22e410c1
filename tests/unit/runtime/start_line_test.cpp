#include "runtime/start_line.h"

#include <gmock/gmock.h>

#include "support/device/simulated_device.h"

namespace kolo::runtime {
namespace {

using cuda::Link;
using testing::HasSubstr;

LinkBetween all(Link link) {
  return [link](const std::string&, const std::string&) { return std::optional(link); };
}

const std::vector<std::string> kThree{"a", "b", "c"};

TEST(LinksText, DescribesLinksThatAreEqualOrUnknown) {
  EXPECT_EQ(links_text({"a"}, all(Link::peer_access)), "");
  EXPECT_EQ(links_text(kThree, all(Link::none)), "no peer access between them");
  EXPECT_EQ(links_text(kThree, all(Link::peer_access)), "peer access between all");
  EXPECT_EQ(links_text(kThree, all(Link::peer_access_with_atomics)), "peer access between all, with native atomics");
  const auto unknown = [](const std::string& from, const std::string&) {
    return from == "a" ? std::optional(Link::peer_access) : std::nullopt;
  };
  EXPECT_THAT(links_text(kThree, unknown), HasSubstr("links unknown"));
}

TEST(LinksText, CountsPairsOfEachKindIfTheyDiffer) {
  const auto mixed = [](const std::string& from, const std::string& to) {
    if (to == "d") return std::optional(Link::none);
    return std::optional(from == "a" && to == "b" ? Link::peer_access_with_atomics : Link::peer_access);
  };
  EXPECT_EQ(links_text({"a", "b", "c", "d"}, mixed),
            "peer access between 3 of 6 pairs, with native atomics between 1 of 6 pairs");
}

std::vector<DeviceFacts> ranks() {
  std::vector<DeviceFacts> all;
  for (int rank = 0; rank < 5; ++rank) {
    DeviceFacts facts;
    facts.host = rank < 4 ? "one" : "other";
    facts.host_number = rank < 4 ? 0 : 1;
    facts.device = "0000:0" + std::to_string(1 + rank % 3) + ":00.0";  // ranks 0 and 3 share one
    facts.name = rank == 2 ? "Small" : "Large";
    facts.memory = rank == 2 ? std::size_t{16} << 30 : (std::size_t{80} << 30) - (std::size_t{410} << 20);
    all.push_back(facts);
  }
  return all;
}

TEST(HostText, CountsDevicesByKind) {
  EXPECT_EQ(host_text(ranks(), 0, all(Link::peer_access)),
            "ranks 0, 1, 2, 3 on one: 2 x Large, 79.6 GiB (0000:01:00.0, 0000:02:00.0), 1 x Small, 16.0 GiB "
            "(0000:03:00.0), peer access between all");
  EXPECT_EQ(host_text(ranks(), 1, all(Link::none)), "rank 4 on other: 1 x Large, 79.6 GiB (0000:02:00.0)");
}

TEST(StartLine, ContainsLinksVersionsAndReduction) {
  const test::SimulatedDevice device({.devices = 3, .native_atomics = true});
  const cuda::Runtime runtime(device.api());
  const std::string line = start_line(ranks(), 0, runtime, "NCCL 2.28.9 from somewhere");
  EXPECT_THAT(line, HasSubstr("peer access between all, with native atomics; CUDA runtime 13.0, driver for CUDA 13.0; "
                              "NCCL 2.28.9 from somewhere"));
  EXPECT_THAT(start_line(ranks(), 1, runtime, "x"), testing::Not(HasSubstr("peer access")));
}

}  // namespace
}  // namespace kolo::runtime
