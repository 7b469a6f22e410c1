#include "base/host_name.h"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <fstream>

namespace kolo::base {
namespace {

// By which the kernel tells namespaces of a kind apart.
std::string number_of_namespace(const char* kind) {
  struct stat status {};
  const bool known = stat((std::string("/proc/self/ns/") + kind).c_str(), &status) == 0;
  return known ? std::to_string(status.st_ino) : "?";
}

}  // namespace

std::string host_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return "localhost";
  return name.data();
}

std::string host_key() {
  std::string boot_id;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot_id);
  return host_name() + '|' + boot_id + '|' + number_of_namespace("net") + '|' + number_of_namespace("pid");
}

}  // namespace kolo::base
