#include "nccl/network.h"

#include <gtest/gtest.h>

#include <fstream>

#include "support/temporary_folder.h"

namespace kolo::nccl {
namespace {

const FastNetwork kTwo{{{"mlx5_0", true}, {"mlx5_1", true}}, true};

std::string warning(const FastNetwork& network, const Environment& environment) {
  return network_trouble(network, environment).value_or("none");
}
std::string unused(const FastNetwork& network, const Environment& environment, int open) {
  return unused_network(network, environment, open).value_or("none");
}

TEST(NetworkWarning, NothingToWarnOf) {
  EXPECT_EQ(warning(kTwo, {}), "none");
  EXPECT_EQ(warning(kTwo, {{"NCCL_IB_DISABLE", "0"}, {"NCCL_NET", "IB"}}), "none");
  EXPECT_EQ(warning(kTwo, {{"NCCL_IB_HCA", "=mlx5_1:1"}}), "none");
  EXPECT_EQ(warning({}, {{"NCCL_IB_DISABLE", "1"}}), "none");
  EXPECT_EQ(warning({{{"mlx5_0", false}}, true}, {{"NCCL_NET", "Socket"}}), "none");  // no cable
}

TEST(NetworkWarning, SaysWhatStandsInTheWay) {
  const struct {
    Environment environment;
    const char* word;
  } cases[] = {{{{"NCCL_IB_DISABLE", "1"}}, "NCCL_IB_DISABLE=1 is set; unset it"},
               {{{"NCCL_NET", "socket"}}, "NCCL_NET=socket is set; unset it"},
               {{{"NCCL_IB_HCA", "^mlx5"}}, "NCCL_IB_HCA=^mlx5 selects none"},
               {{{"NCCL_IB_HCA", "=mlx5"}}, "NCCL_IB_HCA==mlx5 selects none"},
               {{{"NCCL_IB_HCA", "bnxt_re0"}}, "selects none"}};
  for (const auto& each : cases) {
    const std::string text = warning(kTwo, each.environment);
    EXPECT_NE(text.find("InfiniBand (mlx5_0, mlx5_1)"), std::string::npos) << text;
    EXPECT_NE(text.find(each.word), std::string::npos) << text;
    EXPECT_EQ(network_text(kTwo, each.environment), "sockets");
  }
  EXPECT_NE(warning({kTwo.devices, false}, {}).find("libibverbs"), std::string::npos);
}

// What NCCL did, where nothing was in its way.
TEST(UnusedNetwork, IsOneOfWhichNothingIsOpen) {
  EXPECT_NE(unused(kTwo, {}, 0).find("InfiniBand (mlx5_0, mlx5_1), but NCCL has opened none"), std::string::npos);
  EXPECT_NE(unused(kTwo, {{"NCCL_NET", "IB"}}, 0).find("opened none"), std::string::npos);
  EXPECT_NE(unused(kTwo, {{"NCCL_IB_HCA", "mlx5_1"}}, 0).find("(mlx5_1)"), std::string::npos);
  EXPECT_EQ(unused(kTwo, {}, 1), "none");
  EXPECT_EQ(unused({}, {}, 0), "none");
  EXPECT_EQ(unused({{{"mlx5_0", false}}, true}, {}, 0), "none");
  EXPECT_EQ(unused(kTwo, {{"NCCL_NET_PLUGIN", "ofi"}}, 0), "none");
  EXPECT_EQ(unused(kTwo, {{"NCCL_NET", "AWS Libfabric"}}, 0), "none");
  EXPECT_EQ(unused(kTwo, {{"NCCL_IB_DISABLE", "1"}}, 0), "none") << "said before";
}

TEST(NetworkText, NamesTheDevicesThatAreUsed) {
  EXPECT_EQ(network_text(kTwo, {}), "InfiniBand mlx5_0, mlx5_1");
  EXPECT_EQ(network_text(kTwo, {{"NCCL_IB_HCA", "^=mlx5_0"}}), "InfiniBand mlx5_1");
  EXPECT_EQ(network_text({}, {}), "sockets");
}

TEST(FindNetwork, ReadsTheKernelsFolders) {
  const test::TemporaryFolder folder;
  for (const auto& [name, state] : {std::pair{"mlx5_1", "1: DOWN"}, std::pair{"mlx5_0", "4: ACTIVE"}}) {
    const auto port = folder.path() / name / "ports" / "1";
    std::filesystem::create_directories(port);
    std::ofstream(port / "state") << state << "\n";
  }
  const FastNetwork network = find_network(folder.path());
  ASSERT_EQ(network.devices.size(), 2U);
  EXPECT_EQ(network.devices[0].name, "mlx5_0");
  EXPECT_TRUE(network.devices[0].active);
  EXPECT_FALSE(network.devices[1].active);
  EXPECT_TRUE(find_network(folder.path() / "none").devices.empty());
}

TEST(OpenDevices, AreCountedByWhatDescriptorsPointTo) {
  const test::TemporaryFolder folder;
  int number = 0;
  for (const char* target :
       {"/dev/null", "/dev/infiniband/uverbs0", "socket:[1]", "/dev/infiniband/uverbs3", "/dev/infiniband/rdma_cm"}) {
    std::filesystem::create_symlink(target, folder.path() / std::to_string(number++));
  }
  EXPECT_EQ(open_devices(folder.path()), 2);
  EXPECT_EQ(open_devices(folder.path() / "none"), 0);
}

TEST(NcclEnvironment, TheUsersValuesStand) {
  EXPECT_EQ(wanted_environment({}, {}), Environment());
  const Environment shared = wanted_environment({{"NCCL_NET", "IB"}}, {.shared_device = true, .rank = 3});
  EXPECT_EQ(shared.at("NCCL_HOSTID"), "r3");
  EXPECT_FALSE(shared.contains("NCCL_NET"));
}

TEST(NcclEnvironment, NothingMayTakeTheDeadlinesAway) {
  EXPECT_EQ(blocking_trouble({}), "");
  EXPECT_EQ(blocking_trouble({{"NCCL_COMM_BLOCKING", "0"}}), "");
  EXPECT_NE(blocking_trouble({{"NCCL_COMM_BLOCKING", "1"}}).find("unset it"), std::string::npos);
}

}  // namespace
}  // namespace kolo::nccl
