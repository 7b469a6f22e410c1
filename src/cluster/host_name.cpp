#include "cluster/host_name.h"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <fstream>

namespace kolo::cluster {

std::string host_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return "localhost";
  return name.data();
}

std::string host_key() {
  std::string boot_id;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot_id);
  struct stat network {};
  const bool known = stat("/proc/self/ns/net", &network) == 0;
  return host_name() + '|' + boot_id + '|' + (known ? std::to_string(network.st_ino) : std::string("?"));
}

}  // namespace kolo::cluster
