#include "base/first_failure.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "base/environment.h"
#include "base/unique_fd.h"

namespace kolo::base {
namespace {

// The first report of a process is the only one, so each is another process.
std::optional<FirstFailure> reported_by(const std::function<void(int theirs)>& child) {
  int ends[2];
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  const UniqueFd ours(ends[0]);
  const UniqueFd theirs(ends[1]);
  const pid_t pid = ::fork();
  if (pid == 0) {
    child(theirs.get());
    ::_exit(0);
  }
  EXPECT_EQ(::waitpid(pid, nullptr, 0), pid);
  return take_first_failure(ours.get());
}

void ask(int theirs) { set_environment(kFirstFailureVariable, first_failure_variable(theirs)); }

TEST(FirstFailure, TheFirstOneCounts) {
  EXPECT_EQ(reported_by([](int theirs) {
              ask(theirs);
              report_first_failure(FirstFailure::peer);
              report_first_failure(FirstFailure::own);
            }),
            FirstFailure::peer);
  EXPECT_EQ(reported_by([](int theirs) {
              ask(theirs);
              report_first_failure(FirstFailure::own);
            }),
            FirstFailure::own);
}

TEST(FirstFailure, NothingIsSaidUnasked) {
  EXPECT_EQ(reported_by([](int /*theirs*/) { report_first_failure(FirstFailure::own); }), std::nullopt);
  EXPECT_EQ(reported_by(ask), std::nullopt);
}

// A program started without the descriptor, where the number has become another file's.
TEST(FirstFailure, NothingIsWrittenIntoAnotherFile) {
  EXPECT_EQ(reported_by([](int theirs) {
              set_environment(kFirstFailureVariable, std::to_string(theirs) + ":1");
              report_first_failure(FirstFailure::own);
            }),
            std::nullopt);
  EXPECT_EQ(reported_by([](int theirs) {
              set_environment(kFirstFailureVariable, "nonsense");
              report_first_failure(FirstFailure::own);
              ask(theirs);  // not used up by what went nowhere
              report_first_failure(FirstFailure::peer);
            }),
            FirstFailure::peer);
}

// The reader is gone: no SIGPIPE, which would end the process.
TEST(FirstFailure, NobodyNeedsToListen) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  ::close(ends[0]);
  const UniqueFd theirs(ends[1]);
  const pid_t pid = ::fork();
  if (pid == 0) {
    ask(theirs.get());
    report_first_failure(FirstFailure::own);
    ::_exit(7);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(pid, &status, 0), pid);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

}  // namespace
}  // namespace kolo::base
