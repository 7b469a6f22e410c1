#include "torch/load_cuda.h"

#include <gmock/gmock.h>
#include <torch/types.h>

#include <fstream>

#include "kolo/error.h"
#include "kolo/torch/cuda.h"
#include "support/built_file.h"
#include "support/temporary_folder.h"
#include "support/thread_ranks.h"

namespace kolo {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr const char* kADriver = "libc.so.6";  // any library that is there

std::string complaint(const CudaFiles& files) {
  try {
    (void)load_cuda(files);
  } catch (const BackendError& error) {
    return error.what();
  }
  return "none";
}

void expect_the_cpu_works() {
  torch::manual_seed(1);
  const at::Tensor weight = torch::ones({3}).set_requires_grad(true);
  (weight * weight).sum().backward();
  EXPECT_EQ(weight.grad().sum().item<double>(), 6);
}

TEST(LoadCuda, FindsFolderOfLoadedLibTorch) {
  EXPECT_TRUE(std::filesystem::exists(usual_cuda_files().folder / "libtorch_cpu.so"));
}

TEST(LoadCuda, ErrorNamesMissingLibraryDriverOrGpu) {
  const test::TemporaryFolder folder;
  EXPECT_THAT(complaint({folder.path(), kADriver}),
              AllOf(HasSubstr("CPU-only build"), HasSubstr(folder.path().string())));
  std::ofstream(folder.path() / "libtorch_cuda.so") << "no library";
  EXPECT_THAT(complaint({folder.path(), "libno-driver.so.1"}),
              AllOf(HasSubstr("cannot load the NVIDIA driver"), HasSubstr("libno-driver.so.1")));
  EXPECT_THAT(complaint({folder.path(), kADriver}), AllOf(HasSubstr("cannot load"), HasSubstr("libtorch_cuda.so")));
  EXPECT_THAT(complaint({test::built_file(KOLO_NO_GPU), kADriver}),
              AllOf(HasSubstr("no CUDA-capable device is detected"), HasSubstr("(100)"), HasSubstr("nvidia-smi")));
  expect_the_cpu_works();
}

TEST(LoadCuda, BackendOfOtherLibTorchIsRefused) {
  if (complaint(usual_cuda_files()) == "none") GTEST_SKIP() << "the true backend is loaded, and a GPU is there";
  EXPECT_THAT(complaint({test::built_file(KOLO_TWO_GPUS), kADriver}),
              HasSubstr("belongs to another LibTorch than the one in use"));
}

TEST(LoadCuda, CpuWorksAfterErrorWithoutGpu) {
  if (complaint(usual_cuda_files()) == "none") GTEST_SKIP() << "there is a GPU";
  // Past the question for a driver: the true backend is loaded, as far as it can be.
  EXPECT_NE(complaint({usual_cuda_files().folder, kADriver}), "none");
  expect_the_cpu_works();
}

TEST(UseCuda, ErrorIsEqualOnAllRanksAndNamesThem) {
  const auto contexts = Context::create_local(3);
  if (complaint(usual_cuda_files()) == "none") GTEST_SKIP() << "there is a GPU";
  std::vector<std::string> texts(3);
  test::run_ranks(3, [&](int rank) {
    try {
      (void)use_cuda(*contexts[rank]);
    } catch (const UsageError& error) {
      texts[rank] = error.what();
    }
  });
  EXPECT_THAT(texts[0], HasSubstr("ranks 0, 1, 2: "));
  EXPECT_THAT(texts, testing::Each(texts[0]));
}

TEST(TroubleOfRanks, EqualTextsAreNamedOnceWithTheirRanks) {
  EXPECT_EQ(trouble_of({{"", "a 1"}, {"", "a 2"}}), "");
  EXPECT_EQ(trouble_of({{"no driver", ""}, {"", "a 1"}, {"no driver", ""}}), "ranks 0, 2: no driver");
  EXPECT_EQ(trouble_of({{"", "a 1"}, {"no driver", ""}}), "rank 1: no driver");
}

TEST(TroubleOfRanks, OneGpuForTwoRanksIsErrorUnlessSharingIsAllowed) {
  EXPECT_THAT(trouble_of({{"", "a 1"}, {"", "b 1"}, {"", "a 1"}}),
              AllOf(HasSubstr("ranks 0, 2 use the same GPU, a 1"), HasSubstr("KOLO_SHARED_DEVICE=on")));
  EXPECT_EQ(trouble_of({{"", ""}, {"", ""}}), "") << "sharing is allowed";
}

}  // namespace
}  // namespace kolo
