// Messages and receives find each other whichever comes first, and whatever comes in between.
#include "transport/inbox.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "contract/transport_tools.h"
#include "kolo/error.h"

namespace kolo::transport {
namespace {

using test::Bytes;
using test::pattern;

std::shared_ptr<PostedReceive> posted(Inbox& inbox, Tag tag, Bytes& into) {
  auto receive = std::make_shared<PostedReceive>();
  receive->tag = tag;
  receive->into = into;
  inbox.post(receive);
  return receive;
}

// As a transport does it: in steps of `step` bytes.
void deliver(Inbox& inbox, const Bytes& message, std::size_t step) {
  for (std::size_t at = 0; at < message.size();) {
    const std::size_t count = std::min(step, inbox.rest());
    if (inbox.to() != nullptr) std::copy_n(message.begin() + static_cast<std::ptrdiff_t>(at), count, inbox.to());
    inbox.advance(count);
    at += count;
  }
}

TEST(Inbox, AMessageGoesStraightIntoItsReceive) {
  Inbox inbox;
  Bytes into(100);
  EXPECT_FALSE(inbox.wanted());
  const auto receive = posted(inbox, 3, into);
  EXPECT_TRUE(inbox.wanted());
  const Bytes message = pattern(0, 1, 1, 70);
  inbox.begin(3, message.size());
  EXPECT_EQ(inbox.to(), into.data());
  deliver(inbox, message, 33);
  EXPECT_FALSE(receive->done);
  EXPECT_TRUE(inbox.end());
  EXPECT_TRUE(receive->done);
  EXPECT_EQ(receive->size, 70U);
  into.resize(70);
  EXPECT_EQ(into, message);
  EXPECT_FALSE(inbox.wanted());
}

TEST(Inbox, AReceiveTakesTheFirstEarlyMessageOfItsTag) {
  Inbox inbox;
  for (int i = 0; i < 3; ++i) {
    const Bytes message = pattern(0, 1, i, 10);
    inbox.begin(i == 0 ? 8 : 7, message.size());
    deliver(inbox, message, 10);
    EXPECT_FALSE(inbox.end());
  }
  Bytes first(10);
  Bytes second(10);
  EXPECT_TRUE(posted(inbox, 7, first)->done);
  EXPECT_TRUE(posted(inbox, 7, second)->done);
  EXPECT_EQ(first, pattern(0, 1, 1, 10));
  EXPECT_EQ(second, pattern(0, 1, 2, 10));
}

TEST(Inbox, AReceiveMayClaimAMessageThatIsStillComing) {
  Inbox inbox;
  const Bytes message = pattern(0, 1, 1, 50);
  inbox.begin(1, message.size());
  EXPECT_FALSE(inbox.wanted());
  Bytes into(50);
  const auto receive = posted(inbox, 1, into);
  EXPECT_TRUE(inbox.wanted());
  deliver(inbox, message, 20);
  EXPECT_TRUE(inbox.end());
  EXPECT_TRUE(receive->done);
  EXPECT_EQ(into, message);
}

TEST(Inbox, WhatDoesNotFitGoesNowhere) {
  for (const bool early : {false, true}) {
    Inbox inbox;
    Bytes into(5, std::byte{1});
    const Bytes message = pattern(0, 1, 1, 6);
    std::shared_ptr<PostedReceive> receive;
    if (!early) receive = posted(inbox, 1, into);
    inbox.begin(1, message.size());
    deliver(inbox, message, 4);
    EXPECT_EQ(inbox.end(), !early);
    if (early) receive = posted(inbox, 1, into);
    ASSERT_TRUE(receive->done);
    EXPECT_FALSE(receive->fits());
    EXPECT_EQ(into, Bytes(5, std::byte{1}));
    try {
      throw_too_long(*receive, "rank 3");
    } catch (const BackendError& error) {
      EXPECT_STREQ(error.what(),
                   "a message of 6 bytes from rank 3 is longer than the receive buffer of 5. Do all ranks "
                   "call the same collective with equal counts?");
    }
  }
}

TEST(Inbox, EmptyMessagesAreMessages) {
  Inbox inbox;
  Bytes none;
  const auto receive = posted(inbox, 1, none);
  inbox.begin(1, 0);
  EXPECT_EQ(inbox.rest(), 0U);
  EXPECT_TRUE(inbox.end());
  EXPECT_TRUE(receive->done && receive->fits());
}

}  // namespace
}  // namespace kolo::transport
