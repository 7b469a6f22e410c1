#include "run_signals.h"

#include <signal.h>
#include <sys/signalfd.h>

namespace kolo::tools {

base::UniqueFd signal_descriptor(std::initializer_list<int> wanted) {
  sigset_t signals;
  ::sigemptyset(&signals);
  for (const int signal : wanted) ::sigaddset(&signals, signal);
  ::sigprocmask(SIG_BLOCK, &signals, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  return base::UniqueFd(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
}

}  // namespace kolo::tools
