#include "cluster/descriptors.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/resource.h>

#include <vector>

#include "base/unique_fd.h"

namespace kolo::cluster {
namespace {

rlimit limit_now() {
  rlimit limit{};
  EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  return limit;
}

// A soft limit of its own, and afterwards the one of before.
class Descriptors : public testing::Test {
 protected:
  Descriptors() {
    rlimit low = before_;
    low.rlim_cur = kLow;
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  }
  ~Descriptors() override { setrlimit(RLIMIT_NOFILE, &before_); }
  static constexpr rlim_t kLow = 100;
  const rlimit before_ = limit_now();
};

TEST_F(Descriptors, RoomIsMadeAsFarAsTheHardLimitAllowsAndNeverTaken) {
  make_room_for_descriptors(kLow - 1);
  EXPECT_EQ(limit_now().rlim_cur, kLow);
  make_room_for_descriptors(kLow + 20);
  EXPECT_EQ(limit_now().rlim_cur, kLow + 20);
  make_room_for_descriptors(std::size_t{1} << 40);
  EXPECT_EQ(limit_now().rlim_cur, before_.rlim_max);
}

TEST_F(Descriptors, TroubleIsToldWhereThereAreNoMore) {
  EXPECT_EQ(descriptor_trouble(), "");
  std::vector<base::UniqueFd> all;
  do {
    all.emplace_back(open("/dev/null", O_RDONLY | O_CLOEXEC));
  } while (all.back());
  EXPECT_THAT(descriptor_trouble(), testing::HasSubstr("limit of 100 open files: raise `ulimit -n`"));
  all.resize(all.size() / 2);
  EXPECT_EQ(descriptor_trouble(), "");
}

}  // namespace
}  // namespace kolo::cluster
