#include "scaling_peers.h"

#include <algorithm>
#include <array>

#include "kolo/error.h"
#include "scaling_programs.h"
#include "scaling_text.h"

namespace kolo::tools {
namespace {

// What the trainer tells glibc: freed memory stays in the process.
constexpr std::array kKeepFreedMemory{"MALLOC_MMAP_MAX_=0", "MALLOC_TRIM_THRESHOLD_=2147483647",
                                      "MALLOC_TOP_PAD_=67108864"};

std::string last_line(std::string text) {
  while (text.ends_with('\n')) text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

Peer find_ddp(const std::string& python) {
  Peer peer;
  peer.name = "ddp";
  peer.title = "PyTorch DDP";
  peer.environment.assign(kKeepFreedMemory.begin(), kKeepFreedMemory.end());
  peer.uses_gloo = true;
  const std::string script =
      find_beside_program({"../libexec/kolo/peers/ddp.py", "../../../bench/peers/ddp.py", "../bench/peers/ddp.py"});
  peer.words = {python, "-B", script};
  if (script.empty()) {
    peer.missing =
        "ddp.py is neither in libexec/kolo/peers of the installation nor in bench/peers of the sources. Install kolo "
        "again";
    return peer;
  }
  const Finished check =
      run_to_end({python, "-c", "import torch.distributed as d; assert d.is_available() and d.is_gloo_available()"});
  if (check.succeeded) return peer;
  // The version is that of script/setup.
  peer.missing = python + " cannot import torch.distributed with gloo: " + last_line(check.output) +
                 ". Run: python3 -m venv ddp && ddp/bin/pip install torch==2.11.0 numpy; then pass --python "
                 "ddp/bin/python3";
  return peer;
}

Peer find_after_backward(const std::string& way, const std::string& title) {
  Peer peer;
  peer.name = way;
  peer.title = title;
  const std::string program =
      find_beside_program({"../libexec/kolo/peers/resnet50_after_backward", "resnet50_after_backward"});
  peer.words = {program, "--way", way};
  if (program.empty()) {
    peer.missing =
        "resnet50_after_backward is neither beside kolo nor in libexec/kolo/peers. It needs MPI and LibTorch. Run: "
        "BUILD_TARGETS=resnet50_after_backward script/build";
    return peer;
  }
  const Finished check = run_to_end({program, "--way", way, "--help"});
  if (!check.succeeded) {
    peer.missing = "resnet50_after_backward cannot run: " + first_line(check.output) +
                   ". Set LD_LIBRARY_PATH to the folders of the libraries that it lacks";
  }
  return peer;
}

}  // namespace

std::vector<Peer> find_peers(const std::vector<std::string>& names, const std::string& python) {
  std::vector<Peer> peers;
  for (const std::string& name : names) {
    if (std::ranges::find(peers, name, &Peer::name) != peers.end()) continue;
    if (name == "ddp") {
      peers.push_back(find_ddp(python));
    } else if (name == "mpi") {
      peers.push_back(find_after_backward(name, "flat MPI"));
    } else if (name == "loop") {
      peers.push_back(find_after_backward(name, "MPI loop"));
    } else if (name == "torchfort") {
      peers.push_back(find_after_backward(name, "TorchFort's way"));
    } else {
      throw UsageError("--peers: unknown peer '" + name + "'; use ddp, mpi, loop or torchfort");
    }
  }
  return peers;
}

std::vector<std::string> peer_command(const Peer& peer, const std::vector<std::string>& command,
                                      const std::string& interface) {
  std::vector<std::string> environment = peer.environment;
  if (peer.uses_gloo && !interface.empty()) environment.push_back("GLOO_SOCKET_IFNAME=" + interface);
  std::vector<std::string> words;
  if (!environment.empty()) words = {"env"};
  words.insert(words.end(), environment.begin(), environment.end());
  words.insert(words.end(), peer.words.begin(), peer.words.end());
  words.insert(words.end(), command.begin() + 1, command.end());
  return words;
}

}  // namespace kolo::tools
