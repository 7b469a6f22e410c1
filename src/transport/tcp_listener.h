#pragma once
// Who calls this rank. A caller is a stranger until it has told the token of the world. Strangers are told nothing, and
// at most kMostStrangers of them are kept: when there are more, the oldest goes.
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "base/unique_fd.h"
#include "transport/epoll.h"
#include "transport/tcp_connection.h"

namespace kolo::transport {

class TcpListener {
 public:
  static constexpr std::size_t kMostStrangers = 128;

  TcpListener(base::UniqueFd listener, const cluster::Token& token, int ranks);
  // Readable when callers() has something to do.
  [[nodiscard]] int descriptor() const noexcept { return epoll_.descriptor(); }

  struct Caller {
    Rank rank = 0;
    base::UniqueFd socket;
  };
  // Those who have proved by now that they belong to this world. Throws BackendError when nobody can be answered.
  [[nodiscard]] std::vector<Caller> callers();

 private:
  struct Stranger {
    base::UniqueFd socket;
    std::size_t heard = 0;
    TcpGreeting greeting;
  };
  enum class Verdict { wait, refuse, admit };
  void accept(std::vector<Caller>& known);
  Verdict hear(Stranger& stranger) const;

  base::UniqueFd listener_;
  cluster::Token token_;
  int ranks_;
  Epoll epoll_;
  std::map<std::uint64_t, Stranger> strangers_;  // by the order in which they came; 0 marks the listener
  std::uint64_t next_ = 1;
};

}  // namespace kolo::transport
