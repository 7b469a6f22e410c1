// What is particular to ranks as threads: memory of transfers that were given up is never touched again.
#include <gtest/gtest.h>

#include <memory>

#include "contract/transport_tools.h"
#include "transport/make.h"

namespace kolo::transport {
namespace {

using test::Bytes;
using test::pattern;

TEST(Inproc, AnAbandonedReceiveTakesItsMessageToNowhere) {
  auto ends = make_inproc(2);
  {
    const auto gone = std::make_unique<Bytes>(100);
    static_cast<void>(ends[1]->receive(0, 1, *gone));
  }
  const Bytes first = pattern(0, 1, 1, 100);
  const Bytes second = pattern(0, 1, 2, 100);
  EXPECT_TRUE(ends[0]->send(1, 1, first)->test());
  EXPECT_TRUE(ends[0]->send(1, 1, second)->test());
  Bytes in(100);
  EXPECT_TRUE(ends[1]->receive(0, 1, in)->test());
  EXPECT_EQ(in, second);
}

TEST(Inproc, AnAbandonedSendArrivesWhole) {
  constexpr std::size_t kLong = std::size_t{1} << 20;  // not copied at once
  auto ends = make_inproc(2);
  {
    const auto gone = std::make_unique<Bytes>(pattern(0, 1, 1, kLong));
    const auto send = ends[0]->send(1, 1, *gone);
    EXPECT_FALSE(send->test());
  }
  Bytes in(kLong);
  EXPECT_TRUE(ends[1]->receive(0, 1, in)->test());
  EXPECT_EQ(in, pattern(0, 1, 1, kLong));
}

}  // namespace
}  // namespace kolo::transport
