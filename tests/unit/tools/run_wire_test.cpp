#include "run_wire.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace kolo::tools {
namespace {

TEST(RunWire, MessagesSurviveAnyCutting) {
  const std::string stream = encode(Hello{"token", 3, "host with spaces", 4711}) +
                             encode(MessageType::output, std::string("1\0\n\xff", 4)) +
                             encode_number(MessageType::credit, 0x01020304) + encode(End{How::signalled, 9, true});
  for (std::size_t piece = 1; piece <= stream.size(); ++piece) {
    MessageReader reader;
    std::vector<Message> got;
    for (std::size_t begin = 0; begin < stream.size(); begin += piece) {
      reader.append(std::string_view(stream).substr(begin, piece));
      while (auto message = reader.next()) got.push_back(*message);
    }
    ASSERT_EQ(got.size(), 4U);
    const Hello hello = decode_hello(got[0].body);
    EXPECT_EQ(hello.token, "token");
    EXPECT_EQ(hello.rank, 3);
    EXPECT_EQ(hello.host, "host with spaces");
    EXPECT_EQ(hello.pid, 4711);
    EXPECT_EQ(got[1].body, std::string("1\0\n\xff", 4));
    EXPECT_EQ(decode_number(got[2].body), 0x01020304U);
    const End end = decode_end(got[3].body);
    EXPECT_EQ(end.how, How::signalled);
    EXPECT_EQ(end.value, 9);
    EXPECT_TRUE(end.told);
  }
}

TEST(RunWire, GarbageIsRefusedAtOnce) {
  MessageReader reader;
  reader.append("GET / HTTP/1.1\r\n");
  EXPECT_THROW(static_cast<void>(reader.next()), std::runtime_error);
  MessageReader large;
  large.append(std::string("O\x7f\xff\xff\xff", 5));
  EXPECT_THROW(static_cast<void>(large.next()), std::runtime_error);
}

TEST(RunWire, BodiesThatAreNone) {
  for (const char* body : {"", "token", "token 1", "token x 2 host", "token 1 2"}) {
    EXPECT_THROW(static_cast<void>(decode_hello(body)), std::runtime_error) << body;
  }
  for (const char* body : {"", "x", "q1", "x1x"}) {
    EXPECT_THROW(static_cast<void>(decode_end(body)), std::runtime_error) << body;
  }
  EXPECT_THROW(static_cast<void>(decode_number("abc")), std::runtime_error);
}

TEST(RunWire, Secrets) {
  EXPECT_TRUE(same_secret("abc", "abc"));
  EXPECT_FALSE(same_secret("abc", "abd"));
  EXPECT_FALSE(same_secret("abc", "ab"));
  EXPECT_FALSE(same_secret("", "a"));
}

}  // namespace
}  // namespace kolo::tools
