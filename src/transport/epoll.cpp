#include "transport/epoll.h"

#include <cerrno>
#include <ctime>
#include <string>

#include "base/system_error.h"

namespace kolo::transport {
Epoll::Epoll() : epoll_(epoll_create1(EPOLL_CLOEXEC)) {
  if (!epoll_) base::throw_errno("epoll_create1");
}

void Epoll::add(int descriptor, std::uint32_t events, std::uint64_t mark) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = mark;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, descriptor, &event) != 0) base::throw_errno("epoll_ctl");
}

void Epoll::remove(int descriptor) noexcept { epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, descriptor, nullptr); }

std::span<const epoll_event> Epoll::wait(std::chrono::nanoseconds at_most) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(at_most);
  const timespec time{static_cast<time_t>(seconds.count()), static_cast<long>((at_most - seconds).count())};
  int count = epoll_pwait2(epoll_.get(), events_.data(), static_cast<int>(events_.size()), &time, nullptr);
  if (count < 0 && (errno == ENOSYS || errno == EPERM)) {  // before Linux 5.11, or forbidden by a container
    const auto rounded = std::chrono::ceil<std::chrono::milliseconds>(at_most).count();
    count = epoll_wait(epoll_.get(), events_.data(), static_cast<int>(events_.size()), static_cast<int>(rounded));
  }
  if (count < 0 && errno != EINTR) base::throw_errno("epoll_pwait2");
  return {events_.data(), count < 0 ? 0 : static_cast<std::size_t>(count)};
}

}  // namespace kolo::transport
