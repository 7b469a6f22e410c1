// The monitor without a loss: its reports, its cost, and garbage at its port. tests/faults tests losses.
#include <gmock/gmock.h>
#include <mpi.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <mutex>
#include <thread>

#include "multirank/engine/world.h"
#include "support/rest.h"

namespace kolo::test {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

class Lines {
 public:
  [[nodiscard]] LogSink sink() {
    return [this](LogLevel level, std::string_view line) {
      const std::lock_guard lock(lock_);
      if (level == LogLevel::warn) lines_.emplace_back(line);
    };
  }
  [[nodiscard]] std::vector<std::string> taken() {
    const std::lock_guard lock(lock_);
    return std::move(lines_);
  }

 private:
  std::mutex lock_;
  std::vector<std::string> lines_;
};

float sum_of_ranks(Context& context) {
  const std::vector<float> input(100, static_cast<float>(context.rank() + 1));
  std::vector<float> output(100);
  context.engine().submit(allreduce("sum", input, &output)).wait();
  return output.back();
}

float expected_sum(const Context& context) { return static_cast<float>(context.size() * (context.size() + 1) / 2); }

std::vector<Rank> everybody(const Context& context) {
  std::vector<Rank> ranks;
  for (Rank rank = 0; rank < context.size(); ++rank) ranks.push_back(rank);
  return ranks;
}

TEST(Monitor, IdleProcessNeitherSpinsNorPolls) {
  const auto context = Context::create(Config{});
  static_cast<void>(sum_of_ranks(*context));
  std::this_thread::sleep_for(200ms);  // until the coordinator has parked
  expect_rest(1);
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST(Monitor, WithoutLossAllRanksSurviveAndNewContextWorks) {
  auto context = Context::create(Config{});
  EXPECT_EQ(context->survivors(), everybody(*context));
  for (int i = 0; i < 3; ++i) {
    context = Context::create_over_survivors(*context);
    EXPECT_EQ(sum_of_ranks(*context), expected_sum(*context));
    EXPECT_EQ(context->survivors(), everybody(*context));
  }
  context->communicator().barrier(50s);
}

TEST(Monitor, RanksThatAreThreadsAllSurviveAndGetNoNewContext) {
  const auto contexts = Context::create_local(2);
  EXPECT_THAT(contexts[1]->survivors(), ElementsAre(0, 1));
  EXPECT_THROW(static_cast<void>(Context::create_over_survivors(*contexts[0])), UsageError);
}

TEST(Monitor, SurvivorsIsUsageErrorWithoutMonitor) {
  Config config;
  config.monitor = false;
  const auto context = Context::create(config);
  EXPECT_EQ(sum_of_ranks(*context), expected_sum(*context));
  EXPECT_THROW(static_cast<void>(context->survivors()), UsageError);
  context->communicator().barrier(50s);
}

// Also for rank 0, which relays the stall reports of the engine.
TEST(Monitor, StallReportNamesActivityOfMissingRank) {
  Lines lines;
  Config config;
  config.stall_warning = 300ms;
  config.log_sink = lines.sink();
  const auto context = Context::create(config);
  for (const Rank absent : {0, context->size() - 1}) {
    SCOPED_TRACE("absent: " + std::to_string(absent));
    if (context->rank() == absent) std::this_thread::sleep_for(5s);
    EXPECT_EQ(sum_of_ranks(*context), expected_sum(*context));
    context->communicator().barrier(50s);
    const auto said = lines.taken();
    if (context->rank() == absent) continue;
    EXPECT_THAT(said, ElementsAre(AllOf(HasSubstr("stall: waited_ms="), HasSubstr(": 'sum': "),
                                        HasSubstr("rank " + std::to_string(absent) + " (host "),
                                        HasSubstr("alive, has not submitted it; in the program's code for"))));
  }
}

TEST(Monitor, StallReportOfRoundNamesMissingRank) {
  Lines lines;
  Config config;
  config.stall_warning = 300ms;
  config.log_sink = lines.sink();
  const auto context = Context::create(config);
  const std::vector<float> gradient(1000, 1.0F);
  auto reducer = context->engine().make_reducer({{"a", {1000}, {1}, DType::f32}}, {});
  const Rank absent = context->size() - 1;
  for (int round = 0; round < 6; ++round) {
    if (round == 5 && context->rank() == absent) std::this_thread::sleep_for(5s);
    reducer->contribute(0, gradient.data());
    reducer->finish();
  }
  if (context->rank() != absent) {
    auto said = lines.taken();
    // On a machine that is busy enough earlier rounds may have been waited for too.
    std::erase_if(said, [](const std::string& line) { return line.find("round 5 of") == std::string::npos; });
    EXPECT_THAT(said, ElementsAre(AllOf(HasSubstr("round 5 of gradients/0"), HasSubstr("in the program's code for"),
                                        HasSubstr("rank " + std::to_string(absent) + " (host "))));
  }
  context->communicator().barrier(50s);
}

// The addresses at which this process listens; one is the monitor's port.
std::vector<sockaddr_in> listeners() {
  std::vector<sockaddr_in> found;
  for (int fd = 3; fd < 1024; ++fd) {
    int listens = 0;
    socklen_t length = sizeof listens;
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) != 0 || listens == 0) continue;
    sockaddr_in address{};
    length = sizeof address;
    if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0 || address.sin_family != AF_INET) continue;
    if (address.sin_addr.s_addr == htonl(INADDR_ANY)) address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    found.push_back(address);
  }
  return found;
}

int call(const sockaddr_in& address) {
  const int made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  EXPECT_EQ(connect(made, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  return made;
}

TEST(Monitor, GarbageAtItsPortHasNoEffect) {
  const auto others = listeners();  // MPI's
  const auto context = Context::create(Config{});
  const auto is_new = [&](const sockaddr_in& address) {
    return std::none_of(others.begin(), others.end(),
                        [&](const auto& old) { return old.sin_port == address.sin_port; });
  };
  std::vector<int> calls;
  for (const auto& address : listeners()) {
    if (!is_new(address)) continue;
    for (int i = 0; i < 100; ++i) {
      calls.push_back(call(address));
      std::string words(static_cast<std::size_t>(1 + i * 37), static_cast<char>(i));
      if (i % 3 == 0) words = "GET / HTTP/1.1\r\n\r\n";
      if (i % 3 == 1) words = std::string("\x19\0\0\0\0", 5) + std::string(60, 'x');  // the length of a greeting
      static_cast<void>(!send(calls.back(), words.data(), words.size(), MSG_NOSIGNAL));
    }
  }
  EXPECT_THAT(calls, SizeIs(100));
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(sum_of_ranks(*context), expected_sum(*context));
    std::this_thread::sleep_for(5ms);
  }
  EXPECT_EQ(context->survivors(), everybody(*context));
  for (const int each : calls) close(each);
  context->communicator().barrier(50s);
}

}  // namespace
}  // namespace kolo::test
