#include "transport/congestion_control.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "base/system_error.h"
#include "cluster/listener.h"
#include "kolo/error.h"

namespace kolo::transport {
namespace {

constexpr std::string_view kPaced = "bbr";
constexpr const char* kUnpaced = "cubic";

}  // namespace

std::string choose_congestion_control(const std::string& setting) {
  if (setting == "system") return "";
  const auto trial = cluster::make_tcp_socket(AF_INET);
  if (setting.empty()) {
    const bool paced = congestion_control_of(trial.get()).starts_with(kPaced);
    return paced && set_congestion_control(trial.get(), kUnpaced) ? kUnpaced : "";
  }
  if (set_congestion_control(trial.get(), setting)) return setting;
  throw BackendError("KOLO_TCP_CONGESTION=" + setting + ": the kernel refuses this algorithm (" +
                     base::errno_text(errno) + "). Choose one of /proc/sys/net/ipv4/tcp_allowed_congestion_control");
}

bool set_congestion_control(int socket, const std::string& name) noexcept {
  return name.empty() ||
         setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name.data(), static_cast<socklen_t>(name.size())) == 0;
}

std::string congestion_control_of(int socket) {
  std::array<char, 16> name{};
  socklen_t length = name.size();
  if (getsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name.data(), &length) != 0) return "";
  return {name.data(), strnlen(name.data(), length)};
}

}  // namespace kolo::transport
