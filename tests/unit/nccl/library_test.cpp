#include "nccl/library.h"

#include <gtest/gtest.h>

#include <optional>

#include "kolo/error.h"
#include "nccl/comm_handle.h"
#include "support/device/simulated_nccl.h"

namespace kolo::nccl {
namespace {

template <class F>
std::string error_of(F&& call) {
  try {
    call();
  } catch (const BackendError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Library, SaysWhatItIs) {
  test::SimulatedDevice device;
  test::SimulatedNccl nccl(device);
  const Library library(nccl.api(), "/opt/libnccl.so.2");
  EXPECT_EQ(library.version(), 22809);
  EXPECT_EQ(library.describe(), "NCCL 2.28.9 from /opt/libnccl.so.2 (kolo needs 2.18.0 or newer)");
}

TEST(Library, RefusesOldOnes) {
  test::SimulatedDevice device;
  test::SimulatedNccl nccl(device, {.version = 21705});
  const std::string text = error_of([&] { Library library(nccl.api(), "old.so"); });
  EXPECT_EQ(text, "old.so is NCCL 2.17.5; kolo needs 2.18.0 or newer");
}

TEST(Library, NamesTheMissingCall) {
  test::SimulatedDevice device;
  test::SimulatedNccl nccl(device);
  NcclApi api = nccl.api();
  api.reduce_scatter = nullptr;
  EXPECT_EQ(error_of([&] { Library library(api, "x.so"); }),
            "x.so is NCCL 2.28.9 without ncclReduceScatter; reinstall NCCL");
  api.version = nullptr;
  EXPECT_EQ(error_of([&] { Library library(api, "x.so"); }), "x.so is not NCCL: ncclGetVersion is missing");
  api = nccl.api();
  api.allocate = nullptr;  // newer than the oldest that is taken
  EXPECT_NO_THROW(Library(api, "x.so"));
}

TEST(Library, LooksBesideTorch) {
  EXPECT_EQ(library_candidates("").size(), 2U);
  const auto candidates = library_candidates("/env/site-packages/torch/lib/libtorch_cpu.so");
  ASSERT_EQ(candidates.size(), 4U);
  EXPECT_EQ(candidates[2], "/env/site-packages/torch/lib/libnccl.so.2");
  EXPECT_EQ(candidates[3], "/env/site-packages/torch/lib/../../nvidia/nccl/lib/libnccl.so.2");
}

TEST(Library, SaysWhereItLooked) {
  const std::string text = error_of([] { (void)load_library_from({"libm.so.6", "/nowhere/libnccl.so.2"}); });
  // The first is in this process, and is no NCCL.
  EXPECT_NE(text.find("libm.so.6 is not NCCL"), std::string::npos) << text;
  const std::string nothing = error_of([] { (void)load_library_from({"libnone.so.1", "/nowhere/libnccl.so.2"}); });
  EXPECT_NE(nothing.find("install it"), std::string::npos) << nothing;
  EXPECT_NE(nothing.find("libnone.so.1: not loaded by this process"), std::string::npos) << nothing;
  EXPECT_NE(nothing.find("/nowhere/libnccl.so.2: "), std::string::npos) << nothing;
}

// The vendor's NCCL where this host has one, in a place where it often is.
LibraryPtr find_real() {
  try {
    auto candidates = library_candidates("");
    for (const char* folder : {"lib", "lib64"})
      candidates.push_back(std::string("/usr/local/cuda/") + folder + "/libnccl.so.2");
    return load_library_from(candidates);
  } catch (const BackendError&) {
    return nullptr;
  }
}

TEST(RealLibrary, LoadsWithoutADevice) {
  const LibraryPtr library = find_real();
  if (library == nullptr) GTEST_SKIP() << "this host has no NCCL";
  EXPECT_GE(library->version(), kOldestVersion);
  EXPECT_NE(library->describe().find("libnccl.so.2"), std::string::npos) << library->describe();
  EXPECT_STREQ(library->api().error_text(Result::invalid_usage) != nullptr ? "words" : "", "words");
}

// Without a driver a communicator cannot be made: an error with NCCL's words, in good time.
TEST(RealLibrary, InitFailsCleanlyWithoutADriver) {
  const LibraryPtr library = find_real();
  if (library == nullptr) GTEST_SKIP() << "this host has no NCCL";
  CommParts parts;
  parts.library = library;
  parts.timeout = std::chrono::seconds(60);
  const Result result = library->api().unique_id(&parts.id);
  if (result != Result::success) GTEST_SKIP() << "no network for NCCL: " << library->api().error_text(result);
  const std::string text = error_of([&] { CommHandle handle(parts); });
  if (text == "no error") GTEST_SKIP() << "this host has a device";
  EXPECT_NE(text.find("NCCL, "), std::string::npos) << text;
  EXPECT_NE(text.find("on rank 0 of 1"), std::string::npos) << text;
}

}  // namespace
}  // namespace kolo::nccl
