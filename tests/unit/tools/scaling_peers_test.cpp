#include "scaling_peers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kolo/error.h"

namespace kolo::tools {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(FindPeers, UnknownNameIsAnErrorThatListsTheKnownOnes) {
  try {
    static_cast<void>(find_peers({"horovod"}, "python3"));
    FAIL() << "no error";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("ddp, mpi, loop or torchfort"), HasSubstr("'horovod'")));
  }
}

TEST(FindPeers, MissingPeerNamesTheCommandThatInstallsIt) {
  const std::vector<Peer> peers = find_peers({"ddp"}, "no-such-python");
  ASSERT_EQ(peers.size(), 1u);
  EXPECT_EQ(peers[0].title, "PyTorch DDP");
  EXPECT_THAT(peers[0].missing,
              AllOf(HasSubstr("no-such-python cannot import torch.distributed"), HasSubstr("pip install torch")));
}

TEST(FindPeers, RepeatedNameIsOnePeer) { EXPECT_EQ(find_peers({"mpi", "loop", "mpi"}, "python3").size(), 2u); }

TEST(PeerCommand, ReplacesTheTrainerAndKeepsItsOptions) {
  Peer peer;
  peer.words = {"/bin/after", "--way", "mpi"};
  const std::vector<std::string> command{"./imagenet_resnet50", "--batch", "4"};
  EXPECT_THAT(peer_command(peer, command, "lo"), ElementsAre("/bin/after", "--way", "mpi", "--batch", "4"));
}

TEST(PeerCommand, GlooGetsItsInterface) {
  Peer peer;
  peer.words = {"python3", "ddp.py"};
  peer.environment = {"A=1"};
  peer.uses_gloo = true;
  EXPECT_THAT(peer_command(peer, {"t"}, "lo"), ElementsAre("env", "A=1", "GLOO_SOCKET_IFNAME=lo", "python3", "ddp.py"));
  EXPECT_THAT(peer_command(peer, {"t"}, ""), ElementsAre("env", "A=1", "python3", "ddp.py"));
}

}  // namespace
}  // namespace kolo::tools
