#pragma once
// Peers: programs that train as imagenet_resnet50 does, with the same options, and reduce gradients without kolo. Each
// writes the step log of docs/formats.md.
#include <string>
#include <vector>

namespace kolo::tools {

inline constexpr const char* kPeerProgram = "imagenet_resnet50";  // the program that peers are compared with

struct Peer {
  std::string name;                        // of --peers and in results.json: "ddp"
  std::string title{};                     // for people: "PyTorch DDP"
  std::vector<std::string> words{};        // of its command, before the options of the trainer
  std::vector<std::string> environment{};  // NAME=VALUE
  bool uses_gloo = false;
  std::string missing{};  // why this machine cannot run it, and what to do; empty: it can
};

// Starts each program once to see whether it runs. `python` is the Python of ddp. Throws UsageError for unknown names.
[[nodiscard]] std::vector<Peer> find_peers(const std::vector<std::string>& names, const std::string& python);

// The command of a rank of `peer` with the options of `command`, the trainer's. `interface`: the network interface of
// gloo; empty: gloo decides.
[[nodiscard]] std::vector<std::string> peer_command(const Peer& peer, const std::vector<std::string>& command,
                                                    const std::string& interface);

}  // namespace kolo::tools
