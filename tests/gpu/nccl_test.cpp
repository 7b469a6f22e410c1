// NCCL itself, with ranks that are processes, each on a GPU of its own, or on one GPU where the machine has fewer,
// which is slow (each call takes milliseconds): every collective, ring and tree, and every end that an operation can
// take. The contract is the one that all communicators are held to.
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "cluster/make.h"
#include "contract/communicator_contract.h"
#include "contract/device_adapter.h"
#include "cuda/kernel.h"
#include "gpu/gpu.h"
#include "kernels/device_image.h"
#include "kolo/error.h"
#include "kolo/spi/communicator.h"
#include "nccl/library.h"
#include "nccl/make.h"
#include "support/scoped_variable.h"

namespace kolo::test {
namespace {

using namespace std::chrono_literals;

// This rank's.
int device_of(const cluster::Bootstrap& bootstrap) {
  return bootstrap.placement().device % gpu_runtime()->device_count();
}

nccl::NcclParts parts_over(cluster::Bootstrap& bootstrap) {
  nccl::NcclParts parts;
  parts.rank = bootstrap.placement().rank;
  parts.size = bootstrap.placement().size;
  parts.host = bootstrap.placement().host;
  parts.exchange = [&bootstrap](const std::string& mine) { return bootstrap.allgather(mine); };
  parts.runtime = gpu_runtime();
  parts.library = nccl::load_library();
  parts.device = device_of(bootstrap);
  parts.shared_device = bootstrap.placement().local_size > gpu_runtime()->device_count();
  parts.kernels = std::make_shared<cuda::KernelImage>(gpu_runtime(), kernels::device_image());
  parts.timeout = 60s;
  parts.log = telemetry::Logger(LogLevel::info);
  return parts;
}

class World : public testing::Test {
 protected:
  std::unique_ptr<cluster::Bootstrap> bootstrap = cluster::make_mpi_bootstrap();
};

// What NCCL_ALGO is when the communicator is made.
enum class Wish { none, ring, tree };

struct Parameters {
  const ContractCase* contract;
  Wish wish;
};

class NcclContract : public World, public testing::WithParamInterface<Parameters> {};

// NCCL has functions in NCCL_ALGO since 2.24; before, its value was of allreduce.
std::string algorithm_text(Wish wish, int version) {
  return std::string(version < 22400 ? "" : "allreduce:") + (wish == Wish::ring ? "ring" : "tree");
}

TEST_P(NcclContract, Holds) {
  const auto parts = parts_over(*bootstrap);
  std::optional<ScopedVariable> variable;
  if (GetParam().wish != Wish::none) {
    variable.emplace("NCCL_ALGO", algorithm_text(GetParam().wish, parts.library->version()));
  }
  const auto inner = nccl::make_nccl(parts);
  DeviceAdapter adapter(*inner, gpu_runtime(), device_of(*bootstrap));
  GetParam().contract->run(adapter);
}

// A device has no flags of the host's to combine, and no memory that peers reach.
bool applies(const ContractCase& contract) {
  const std::string_view name = contract.name;
  return name != "flags_are_ored" && name != "veto_leaves_data" && !name.starts_with("scattered_");
}

std::vector<Parameters> all_parameters() {
  std::vector<Parameters> all;
  for (const ContractCase& contract : communicator_contract()) {
    if (!applies(contract)) continue;
    all.push_back({&contract, Wish::none});
    if (!contract.reduces) continue;
    all.push_back({&contract, Wish::ring});
    all.push_back({&contract, Wish::tree});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Gpu, NcclContract, testing::ValuesIn(all_parameters()), [](const auto& it) {
  const Wish wish = it.param.wish;
  return std::string(it.param.contract->name) + (wish == Wish::ring   ? "_ring"
                                                 : wish == Wish::tree ? "_tree"
                                                                      : "_automatic");
});

// One float a rank, on its device, and what has become of it.
class OneFloat {
 public:
  OneFloat(int device, float value) : memory_(gpu_runtime(), device, sizeof value), stream_(gpu_runtime(), device) {
    cuda::copy(*gpu_runtime(), memory_.data(), &value, sizeof value, stream_.view());
    settle();
  }
  [[nodiscard]] AllreduceOptions options() const {
    AllreduceOptions options;
    options.data = memory_.data();
    options.count = 1;
    options.stream = stream_.view();
    return options;
  }
  [[nodiscard]] float value() const {
    float value = 0;
    cuda::copy(*gpu_runtime(), &value, memory_.data(), sizeof value, stream_.view());
    settle();
    return value;
  }

 private:
  void settle() const {
    gpu_runtime()->check(gpu_runtime()->api().stream_synchronize(stream_.view().handle), "cudaStreamSynchronize");
  }

  cuda::DeviceBuffer memory_;
  cuda::OwnStream stream_;
};

// The last rank stays away: the others' deadline ends the operation on the device too, and all of them may begin anew.
TEST_F(World, ADeadlineAbortsAndTheProcessGoesOn) {
  const int size = bootstrap->placement().size;
  if (size < 2) GTEST_SKIP() << "takes two ranks";
  {
    const auto communicator = nccl::make_nccl(parts_over(*bootstrap));
    communicator->barrier(60s);
    if (communicator->rank() != size - 1) {
      const OneFloat mine(device_of(*bootstrap), 1);
      EXPECT_THROW(communicator->allreduce(mine.options(), 3s), TimeoutError);
      communicator->abort();
    }
    (void)bootstrap->allgather("over");
  }
  const auto again = nccl::make_nccl(parts_over(*bootstrap));
  const OneFloat mine(device_of(*bootstrap), static_cast<float>(again->rank() + 1));
  again->allreduce(mine.options(), 60s);
  EXPECT_EQ(mine.value(), static_cast<float>(size * (size + 1)) / 2);
}

TEST_F(World, AVersionThatKoloKnows) {
  const auto library = nccl::load_library();
  EXPECT_GE(library->version(), nccl::kOldestVersion) << library->describe();
}

}  // namespace
}  // namespace kolo::test
