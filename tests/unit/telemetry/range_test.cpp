#include "telemetry/range.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include "support/built_file.h"
#include "unit/telemetry/range_listener.h"

namespace kolo::telemetry {
namespace {

// The environment of this test names the listener, as a profiler would.
const Heard& heard() {
  const std::string file = test::built_file(KOLO_RANGE_LISTENER);
  void* listener = dlopen(file.c_str(), RTLD_NOW | RTLD_NOLOAD);
  if (listener == nullptr) throw std::runtime_error("no range has made NVTX load " + file);
  return *reinterpret_cast<const Heard* (*)()>(dlsym(listener, "heard_ranges"))();
}

TEST(Range, IsWhatAProfilerHears) {
  {
    const Range outer("kolo: finish round", 7);
    EXPECT_EQ(heard().pushes, 1);
    EXPECT_STREQ(heard().name, "kolo: finish round");
    EXPECT_EQ(heard().number, 7U);
    {
      const Range inner("kolo: reduce bucket", 1ULL << 40);
      EXPECT_STREQ(heard().name, "kolo: reduce bucket");
      EXPECT_EQ(heard().number, 1ULL << 40);
    }
    EXPECT_EQ(heard().pops, 1);
  }
  EXPECT_EQ(heard().pushes, 2);
  EXPECT_EQ(heard().pops, 2);
}

}  // namespace
}  // namespace kolo::telemetry
