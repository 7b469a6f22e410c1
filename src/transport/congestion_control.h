#pragma once
// Which of the kernel's congestion controls the connections between ranks have. Some pace what they send: every burst
// then waits for a timer, which costs more than sending it where a core computes meanwhile, and most of all in a
// virtual machine. docs/decisions/0005-messages-between-hosts-use-own-tcp.md
#include <string>

namespace kolo::transport {

// `setting` is KOLO_TCP_CONGESTION. Empty: as the system has it. Throws BackendError where the kernel refuses what was
// asked for by name.
[[nodiscard]] std::string choose_congestion_control(const std::string& setting);

// Of a socket that is not connected yet, or of a listener, whose callers inherit it. Empty: leaves it. False: refused.
bool set_congestion_control(int socket, const std::string& name) noexcept;
// Empty where it cannot be asked.
[[nodiscard]] std::string congestion_control_of(int socket);

}  // namespace kolo::transport
