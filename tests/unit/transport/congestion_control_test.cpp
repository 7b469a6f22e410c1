#include "transport/congestion_control.h"

#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cluster/listener.h"
#include "kolo/error.h"

namespace kolo::transport {
namespace {

std::string of_new_socket(const std::string& name) {
  const auto socket = cluster::make_tcp_socket(AF_INET);
  EXPECT_TRUE(set_congestion_control(socket.get(), name));
  return congestion_control_of(socket.get());
}

TEST(CongestionControl, TheSystemsOwnIsLeft) {
  EXPECT_EQ(choose_congestion_control("system"), "");
  const auto untouched = cluster::make_tcp_socket(AF_INET);
  EXPECT_EQ(of_new_socket(""), congestion_control_of(untouched.get()));
}

TEST(CongestionControl, NothingIsPacedByItself) {
  const auto chosen = choose_congestion_control("");
  const auto untouched = cluster::make_tcp_socket(AF_INET);
  if (chosen.empty()) {
    EXPECT_EQ(of_new_socket(chosen), congestion_control_of(untouched.get()));
  } else {
    EXPECT_THAT(congestion_control_of(untouched.get()), testing::StartsWith("bbr"));
    EXPECT_EQ(of_new_socket(chosen), "cubic");
  }
}

// The kernel always has it, and anybody may use it.
TEST(CongestionControl, ByName) {
  EXPECT_EQ(choose_congestion_control("reno"), "reno");
  EXPECT_EQ(of_new_socket("reno"), "reno");
}

TEST(CongestionControl, AnUnknownNameIsAnErrorThatSaysWhere) {
  try {
    static_cast<void>(choose_congestion_control("warp"));
    FAIL() << "no error";
  } catch (const BackendError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("KOLO_TCP_CONGESTION=warp"));
    EXPECT_THAT(error.what(), testing::HasSubstr("tcp_allowed_congestion_control"));
  }
}

TEST(CongestionControl, CallersInheritTheListeners) {
  auto listener = cluster::listen_at("127.0.0.1");
  set_congestion_control(listener.socket.get(), "reno");
  const auto caller = cluster::make_tcp_socket(AF_INET);
  const auto where = cluster::socket_address("127.0.0.1", listener.port);
  static_cast<void>(connect(caller.get(), where->get(), where->length));
  base::UniqueFd accepted;
  for (int i = 0; i < 1000 && !accepted; ++i) {
    accepted = cluster::accept_at(listener.socket.get());
    if (!accepted) usleep(1000);
  }
  ASSERT_TRUE(accepted);
  EXPECT_EQ(congestion_control_of(accepted.get()), "reno");
}

}  // namespace
}  // namespace kolo::transport
