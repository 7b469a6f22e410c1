#pragma once
// The connections of one monitor. Whoever calls greets first; only who knows the token gets in:
//
//   caller:    connect ... Greeting ----------> answerer:  reads no more than a greeting, compares, closes on anything
//              open <--------------- Greeting              else, or after kGreetingTime; says nothing to strangers
//
// Strangers cost a descriptor for a few seconds, and at most kMostStrangers of them: when there are more, the oldest
// goes.
#include <poll.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "cluster/monitor_messages.h"
#include "cluster/socket_address.h"

namespace kolo::cluster {

class LinksHost {
 public:
  virtual ~LinksHost() = default;
  virtual void received(Rank from, Message message) = 0;
  // The last connection to `rank` is gone, not by us. `whole`: all that it has sent has come, as when a process ends.
  virtual void closed(Rank rank, bool whole) = 0;
  // A call was refused by the host: no such process. `at_once`: it was within reach all the time.
  virtual void refused(Rank rank, bool at_once) = 0;
  // This process has no socket for a call, which goes on: `why`. Once.
  virtual void out_of_sockets(Rank rank, const std::string& why) = 0;
  // A call came to nothing within its time. `silent`: its host took the call, and nothing came from the rank itself.
  virtual void failed(Rank rank, bool silent) = 0;
};

struct LinksParts {
  Rank rank = 0;
  Token token{};
  base::UniqueFd listener;
  std::vector<SocketAddress> addresses;       // by rank
  std::chrono::milliseconds call_time{5000};  // for a connection, and for an answer to a probe
  // For the greeting of a rank whose host took the call, which it does also for one that is stopped; 0: for ever.
  std::chrono::milliseconds greeting_time{30000};
};

// For one thread. Nothing here waits; the events come from within handle() and tick(), in which calls of send() and
// call() are allowed.
class MonitorLinks {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::size_t kMostStrangers = 64;
  static constexpr std::chrono::milliseconds kGreetingTime{5000};

  MonitorLinks(LinksParts parts, LinksHost& host);
  ~MonitorLinks();

  // Connects to `rank`, unless that is so or under way.
  void call(Rank rank);
  // A call of its own, whatever connections there are: refused() says that nobody is there any more, failed() that
  // somebody has answered, or nobody in time. That a connection is made says nothing: a process that ends may close its
  // listening socket last.
  void probe(Rank rank);
  // Over a connection; calls first where there is none.
  void send(Rank to, const Message& message);
  void beat();
  // To all, also to those whose greeting has not come yet: for them the connection may be open already.
  void say_goodbye();

  // Entries for poll(); handle() wants them back, in the same order.
  void add_to(std::vector<pollfd>& entries);
  void handle(std::span<const pollfd> entries);
  // What happens when time passes. next_time(): when tick() has something to do.
  void tick();
  [[nodiscard]] Clock::time_point next_time() const;

  [[nodiscard]] bool connected(Rank rank) const;
  [[nodiscard]] std::vector<Rank> connected_ranks() const;
  // When something last came from `rank`. REQUIRES: connected.
  [[nodiscard]] Clock::time_point heard(Rank rank) const;
  // This process itself was away: nobody is judged by the time that passed meanwhile.
  void forgive(Clock::duration away);
  [[nodiscard]] bool all_sent() const;
  // Ends every connection, and listening.
  void close_all();

 private:
  struct Link;
  using LinkPointer = std::unique_ptr<Link>;

  void begin_call(Rank rank, bool probe);
  void start_call(Link& link);
  void try_again(Link& link);
  void called(Link& link);
  void await_greeting(Link& link);
  void refused(Link& link);
  bool lacks_socket(Link& link);
  void accept_strangers();
  void read(Link& link);
  void take_in(Link& link, std::span<const std::byte> bytes);
  bool parse(Link& link);
  bool greeted(Link& link, const Message& message);
  void opened(Link& link);
  void write(Link& link);
  void drop(Link& link);
  void sweep();
  [[nodiscard]] Link* find(Rank rank);
  [[nodiscard]] const Link* find(Rank rank) const;

  LinksParts parts_;
  LinksHost& host_;
  std::deque<LinkPointer> links_;
  std::multimap<Rank, Link*> of_rank_;              // those whose rank is known, but for dropped ones
  std::vector<Link*> polled_;                       // as of add_to()
  std::map<Rank, std::vector<std::byte>> waiting_;  // frames for a connection that is being made
  Clock::time_point deaf_until_{};                  // out of descriptors: the listener rests
  bool listener_polled_ = false;
  bool out_of_sockets_ = false;  // was told
};

}  // namespace kolo::cluster
