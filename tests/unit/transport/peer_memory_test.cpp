#include "transport/peer_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <numeric>
#include <vector>

#include "kolo/error.h"

namespace kolo::transport {
namespace {

// A child that has its parent's memory as it was, and waits to be ended.
class Child {
 public:
  Child() : pid_(fork()) {
    while (pid_ == 0) pause();
  }
  ~Child() { end(); }
  void end() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  [[nodiscard]] pid_t pid() const { return pid_; }
  // Asked without what is tested.
  [[nodiscard]] bool may_be_read() const {
    std::byte here{};
    const iovec one{&here, 1};
    return process_vm_readv(pid_, &one, 1, &one, 1, 0) == 1;
  }

 private:
  pid_t pid_;
};

TEST(PeerMemory, IsReadAsItIsThere) {
  std::vector<int> data(1'000'003);
  std::iota(data.begin(), data.end(), 7);
  const std::vector<int> before = data;
  const Child child;
  ASSERT_GT(child.pid(), 0);
  if (!child.may_be_read()) GTEST_SKIP() << "processes may not read each other's memory here";
  std::fill(data.begin(), data.end(), 0);  // here, not there
  std::vector<int> copy(data.size());
  ASSERT_TRUE(read_memory_of(child.pid(), reinterpret_cast<const std::byte*>(data.data()),
                             std::as_writable_bytes(std::span(copy))));
  EXPECT_EQ(copy, before);
}

TEST(PeerMemory, ThatIsNotThereOrNotAllThereIsAnError) {
  constexpr std::size_t kPage = 4096;
  void* const two = mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(two, MAP_FAILED);
  munmap(static_cast<std::byte*>(two) + kPage, kPage);
  const Child child;
  ASSERT_GT(child.pid(), 0);
  if (!child.may_be_read()) GTEST_SKIP() << "processes may not read each other's memory here";
  std::vector<std::byte> copy(2 * kPage);
  EXPECT_TRUE(read_memory_of(child.pid(), static_cast<std::byte*>(two), {copy.data(), kPage}));
  EXPECT_THROW((void)read_memory_of(child.pid(), static_cast<std::byte*>(two), copy), BackendError);
  EXPECT_THROW((void)read_memory_of(child.pid(), reinterpret_cast<const std::byte*>(8), copy), BackendError);
  munmap(two, kPage);
}

TEST(PeerMemory, OfWhoHasEndedIsFalse) {
  Child child;
  const pid_t pid = child.pid();
  ASSERT_GT(pid, 0);
  if (!child.may_be_read()) GTEST_SKIP() << "processes may not read each other's memory here";
  child.end();
  std::byte copy{};
  EXPECT_FALSE(read_memory_of(pid, &copy, {&copy, 1}));
}

}  // namespace
}  // namespace kolo::transport
