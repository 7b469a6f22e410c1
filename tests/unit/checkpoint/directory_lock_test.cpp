// Locks of processes that live, have ended, or are on another host, as CheckpointDirectory shows them.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <nlohmann/json.hpp>

#include "kolo/checkpoint.h"
#include "kolo/error.h"
#include "support/temporary_folder.h"

namespace kolo::checkpoint {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

void write_model(const fs::path& folder) { write_file(folder / "model", std::string_view("x")); }

nlohmann::json owner_in(const fs::path& root) {
  const auto content = read_file(root / "lock.json");
  return nlohmann::json::parse(std::string(reinterpret_cast<const char*>(content.data()), content.size()));
}

void write_owner(const fs::path& root, const nlohmann::json& owner) {
  write_file(root / "lock.json", std::string_view(owner.dump()));
}

void set_heartbeat(const fs::path& root, std::time_t seconds_ago) {
  const std::array<timespec, 2> times{timespec{0, UTIME_OMIT}, timespec{std::time(nullptr) - seconds_ago, 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, (root / "lock.json").c_str(), times.data(), 0), 0);
}

// A lock as a process of another host leaves it.
nlohmann::json owner_elsewhere(const fs::path& root) {
  std::string text;
  {
    CheckpointDirectory directory(root);
    (void)directory.lock();
    text = owner_in(root).dump();
  }
  nlohmann::json owner = nlohmann::json::parse(text);
  owner["host"] = "elsewhere";
  owner["host_key"] = "elsewhere|1|2|3";
  owner["process"] = 4711;
  return owner;
}

// A child process that runs `body` and then sleeps until it is killed.
class Child {
 public:
  template <typename Body>
  explicit Child(Body body) {
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe(ends.data()), 0);
    process_ = ::fork();
    if (process_ == 0) {
      body([&] { (void)!::write(ends[1], "x", 1); });
      for (;;) ::pause();
    }
    char ready = 0;
    EXPECT_EQ(::read(ends[0], &ready, 1), 1);
    ::close(ends[0]);
    ::close(ends[1]);
  }
  ~Child() { kill_and_reap(); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  [[nodiscard]] pid_t process() const { return process_; }
  void kill() const { ::kill(process_, SIGKILL); }
  void kill_and_reap() {
    if (process_ == 0) return;
    kill();
    ::waitpid(process_, nullptr, 0);
    process_ = 0;
  }
  // Until it is a zombie.
  void wait_for_end() const {
    siginfo_t info{};
    ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(process_), &info, WEXITED | WNOWAIT), 0);
  }

 private:
  pid_t process_ = 0;
};

TEST(DirectoryLock, SecondProcessGetsUsageErrorThatNamesOwner) {
  const test::TemporaryFolder folder;
  const Child owner([&](const auto& ready) {
    CheckpointDirectory directory(folder.path());
    (void)directory.lock();
    ready();
    for (;;) ::pause();
  });
  std::array<char, 256> host{};
  ASSERT_EQ(::gethostname(host.data(), host.size() - 1), 0);
  const auto names_the_owner = ThrowsMessage<UsageError>(
      AllOf(HasSubstr(folder.path().string()), HasSubstr("process " + std::to_string(owner.process()) + " on host "),
            HasSubstr(host.data()), HasSubstr("started 20"), HasSubstr(" UTC")));
  EXPECT_THAT([&] { (void)CheckpointDirectory(folder.path()).lock(); }, names_the_owner);
  EXPECT_THAT([&] { CheckpointDirectory(folder.path()).save({1, 0, {}}, write_model); }, names_the_owner);
}

TEST(DirectoryLock, RecordsStartTimeOfProcess) {
  const test::TemporaryFolder folder;
  CheckpointDirectory directory(folder.path());
  (void)directory.lock();
  std::tm parts{};
  const std::string text = owner_in(folder.path()).at("start_time");
  ASSERT_NE(::strptime(text.c_str(), "%Y-%m-%d %H:%M:%S UTC", &parts), nullptr) << text;
  // A child of now, so that its start is known from outside.
  EXPECT_LE(::timegm(&parts), std::time(nullptr) + 1);
  EXPECT_GT(::timegm(&parts), std::time(nullptr) - 600);
}

TEST(DirectoryLock, SecondProcessDoesNotRemoveUnfinishedSave) {
  const test::TemporaryFolder folder;
  const Child owner([&](const auto& ready) {
    CheckpointDirectory(folder.path()).save({1, 0, {}}, [&](const fs::path& temporary) {
      write_model(temporary);
      ready();
      for (;;) ::pause();
    });
  });
  EXPECT_THROW(CheckpointDirectory(folder.path()).save({2, 0, {}}, write_model), UsageError);
  std::size_t unfinished = 0;
  for (const auto& entry : fs::directory_iterator(folder.path())) {
    unfinished += entry.path().filename().string().starts_with(".tmp-") && fs::exists(entry.path() / "model") ? 1 : 0;
  }
  EXPECT_EQ(unfinished, 1U);
}

TEST(DirectoryLock, OfEndedProcessIsTakenOverWithMessage) {
  const test::TemporaryFolder folder;
  for (const bool reaped : {true, false}) {
    Child owner([&](const auto& ready) {
      CheckpointDirectory directory(folder.path());
      (void)directory.lock();
      ready();
      for (;;) ::pause();
    });
    const std::string process = "process " + std::to_string(owner.process());
    owner.kill();
    owner.wait_for_end();
    if (reaped) owner.kill_and_reap();
    CheckpointDirectory directory(folder.path());
    EXPECT_THAT(directory.lock(), AllOf(HasSubstr("took over the lock"), HasSubstr(process), HasSubstr("has ended")));
    EXPECT_EQ(owner_in(folder.path()).at("process"), ::getpid());
  }
}

TEST(DirectoryLock, OfEndedProcessWithReusedNumberIsTakenOver) {
  const test::TemporaryFolder folder;
  nlohmann::json owner;
  {
    CheckpointDirectory directory(folder.path());
    EXPECT_EQ(directory.lock(), "");
    owner = owner_in(folder.path());
  }
  owner["start_ticks"] = owner.at("start_ticks").get<std::int64_t>() - 1;
  write_owner(folder.path(), owner);
  EXPECT_THAT(CheckpointDirectory(folder.path()).lock(), HasSubstr("has ended"));
}

TEST(DirectoryLock, OfOtherHostIsTakenOverAfterSixtySecondsWithoutHeartbeat) {
  const test::TemporaryFolder folder;
  const nlohmann::json owner = owner_elsewhere(folder.path());
  for (const auto& [seconds, abandoned] : {std::pair(50, false), {75, true}}) {
    write_owner(folder.path(), owner);
    set_heartbeat(folder.path(), seconds);
    CheckpointDirectory directory(folder.path());
    if (abandoned) {
      EXPECT_THAT(directory.lock(),
                  AllOf(HasSubstr("process 4711 on host elsewhere"), HasSubstr("no heartbeat for 7")));
    } else {
      EXPECT_THAT([&] { (void)directory.lock(); },
                  ThrowsMessage<UsageError>(AllOf(HasSubstr("process 4711 on host elsewhere"),
                                                  HasSubstr("last heartbeat 5"), HasSubstr("wait for 60 s"))));
    }
  }
}

TEST(DirectoryLock, IncompleteFileIsTakenOverAfterSixtySecondsWithoutHeartbeat) {
  const test::TemporaryFolder folder;
  for (const char* content : {"", "{\"host\": \"a", "[]"}) {
    write_file(folder.path() / "lock.json", std::string_view(content));
    set_heartbeat(folder.path(), 10);
    EXPECT_THAT([&] { (void)CheckpointDirectory(folder.path()).lock(); },
                ThrowsMessage<UsageError>(HasSubstr("lock.json is incomplete")));
    set_heartbeat(folder.path(), 75);
    EXPECT_THAT(CheckpointDirectory(folder.path()).lock(), HasSubstr("lock.json is incomplete"));
  }
}

TEST(DirectoryLock, IsReleasedByDestructor) {
  const test::TemporaryFolder folder;
  {
    CheckpointDirectory first(folder.path());
    EXPECT_EQ(first.lock(), "");
    EXPECT_EQ(first.lock(), "") << "the same object may ask again";
    EXPECT_THROW((void)CheckpointDirectory(folder.path()).lock(), UsageError);
    CheckpointDirectory moved(std::move(first));
    EXPECT_THROW((void)CheckpointDirectory(folder.path()).lock(), UsageError);
    moved.save({1, 0, {}}, write_model);
  }
  EXPECT_FALSE(fs::exists(folder.path() / "lock.json"));
  EXPECT_EQ(CheckpointDirectory(folder.path()).lock(), "");
}

TEST(DirectoryLock, ForkedChildDoesNotRelease) {
  const test::TemporaryFolder folder;
  auto directory = std::make_unique<CheckpointDirectory>(folder.path());
  (void)directory->lock();
  const pid_t child = ::fork();
  if (child == 0) {
    directory.reset();
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(fs::exists(folder.path() / "lock.json"));
}

TEST(DirectoryLock, SaveAfterTakeoverThrowsAndSavesNothing) {
  const test::TemporaryFolder folder;
  const nlohmann::json other = owner_elsewhere(folder.path());
  for (const bool during : {false, true}) {
    CheckpointDirectory directory(folder.path());
    (void)directory.lock();
    if (!during) write_owner(folder.path(), other);
    const auto save = [&] {
      directory.save({1, 0, {}}, [&](const fs::path& temporary) {
        write_model(temporary);
        if (during) write_owner(folder.path(), other);
      });
    };
    EXPECT_THAT(save, ThrowsMessage<BackendError>(HasSubstr("is now locked by process 4711 on host elsewhere")));
    EXPECT_FALSE(directory.latest().has_value());
    fs::remove(folder.path() / "lock.json");
  }
}

TEST(DirectoryLock, DeletedFileIsRestoredBySave) {
  const test::TemporaryFolder folder;
  CheckpointDirectory directory(folder.path());
  (void)directory.lock();
  fs::remove(folder.path() / "lock.json");
  directory.save({1, 0, {}}, write_model);
  EXPECT_EQ(owner_in(folder.path()).at("process"), ::getpid());
}

TEST(DirectoryLock, OneOfManyProcessesTakesOver) {
  const test::TemporaryFolder folder;
  nlohmann::json owner = owner_elsewhere(folder.path());
  write_owner(folder.path(), owner);
  set_heartbeat(folder.path(), 75);
  std::array<int, 2> start{}, results{};
  ASSERT_EQ(::pipe(start.data()), 0);
  ASSERT_EQ(::pipe(results.data()), 0);
  std::vector<pid_t> children;
  for (int i = 0; i < 20; ++i) {
    children.push_back(::fork());
    if (children.back() != 0) continue;
    ::close(start[1]);
    char none = 0;
    (void)!::read(start[0], &none, 1);  // until the parent closes its end
    CheckpointDirectory directory(folder.path());
    char result = 'n';
    try {
      result = directory.lock().empty() ? 'f' : 'y';
    } catch (const UsageError&) {
      result = 'n';
    }
    (void)!::write(results[1], &result, 1);
    for (;;) ::pause();
  }
  ::close(start[1]);
  std::string answers(children.size(), ' ');
  for (char& answer : answers) ASSERT_EQ(::read(results[0], &answer, 1), 1);
  for (const pid_t child : children) {
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }
  for (const int end : {start[0], results[0], results[1]}) ::close(end);
  EXPECT_EQ(std::count(answers.begin(), answers.end(), 'y'), 1) << answers;
  EXPECT_EQ(std::count(answers.begin(), answers.end(), 'n'), 19) << answers;
}

}  // namespace
}  // namespace kolo::checkpoint
