#pragma once
// Watches over the ranks of a world, in a thread of its own that sleeps in poll() and needs no lock of anybody else's:
// on the connections to its neighbours in the tree, on the pid descriptors of its host's ranks, on an eventfd. Once a
// second it tells its neighbours that it lives. Who is lost, and who goes on, is decided in membership.h.
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "cluster/liveness.h"
#include "cluster/membership.h"
#include "cluster/monitor_links.h"
#include "cluster/monitor_setup.h"
#include "cluster/monitor_tree.h"
#include "cluster/peer_process.h"
#include "kolo/config.h"

namespace kolo::cluster {

struct Doing {
  bool waits = false;  // for others: it is not the cause
  std::string text;
};

struct MonitorParts {
  MonitorWorld world;
  std::chrono::milliseconds silence{30000};  // after which a connected rank counts as unresponsive; 0: never
  std::function<void(LogLevel, std::string_view)> log;
  // From the monitor's thread, after a loss has been reported to liveness(): wakes whoever sleeps. Must not block.
  std::function<void()> wake;
  // From the monitor's thread: what this rank is doing, asked by one who waits for it at `operation`. Must not block.
  std::function<Doing(const std::string& operation)> describe;
};

class Monitor final : private LinksHost, private MembershipHost {
 public:
  // Waits until all neighbours are connected. Throws TimeoutError, PeerLostError.
  Monitor(MonitorParts parts, std::chrono::milliseconds timeout);
  ~Monitor() override;
  Monitor(const Monitor&) = delete;

  // Asked in every wait for peers. Lives as long as this.
  [[nodiscard]] const Liveness& liveness() const noexcept { return liveness_; }
  // Who goes on, once the live ranks have agreed; everybody, if nobody is lost. `known_lost` is one whose loss the
  // caller has heard of from others: word of it is on its way here too, and is waited for. Throws PeerLostError when
  // this rank may not go on, TimeoutError.
  [[nodiscard]] Agreement survivors(std::chrono::milliseconds timeout, std::optional<Rank> known_lost = {});
  // Throws PeerLostError when a member of this list is lost by now.
  void require_members(const Agreement& agreement) const;
  // Waits until every member of this list has come here. Throws like survivors(), also when somebody is lost meanwhile.
  void gather(const Agreement& agreement, std::chrono::milliseconds timeout);

  // Asks ranks what they are doing instead of `operation`. Answers come in answers(), by rank; those of earlier
  // questions are forgotten when there are too many.
  [[nodiscard]] std::uint64_t ask(const std::vector<Rank>& ranks, const std::string& operation);
  [[nodiscard]] std::map<Rank, Doing> answers(std::uint64_t question) const;
  [[nodiscard]] const std::string& host_name(Rank rank) const { return parts_.world.host_names[index(rank)]; }

  // Says goodbye and ends the thread. Idempotent.
  void stop() noexcept;

 private:
  using Clock = MonitorLinks::Clock;
  static std::size_t index(Rank rank) { return static_cast<std::size_t>(rank); }
  [[nodiscard]] Rank self() const { return parts_.world.rank; }
  [[nodiscard]] bool of_this_host(Rank rank) const {
    return parts_.world.hosts[index(rank)] == parts_.world.hosts[index(self())];
  }

  void post(std::function<void()> command);
  void wait_for_neighbours(std::chrono::milliseconds timeout);
  [[noreturn]] void throw_fate() const;

  // In the thread.
  void run() noexcept;
  void turn();
  [[nodiscard]] std::chrono::microseconds gathering() const;
  void wait();
  [[nodiscard]] Clock::time_point next_time() const;
  void run_commands();
  void look_at_processes();
  void look_at_process(Rank rank);
  void look_at_silence();
  void publish();
  void farewell();
  void received(Rank from, Message message) override;
  void closed(Rank rank, bool whole) override;
  void refused(Rank rank, bool at_once) override;
  void failed(Rank rank, bool silent) override;
  void out_of_sockets(Rank rank, const std::string& why) override;
  void send(Rank to, const Message& message) override;
  void lost(Rank rank, Condition condition, Rank heard_from) override;
  void fence(Rank rank) override;
  void probe(Rank rank) override;
  void changed() override { changed_ = true; }
  void pass_on(const Question& question);
  void pass_on(Reply reply);

  MonitorParts parts_;
  MonitorTree tree_;
  std::vector<Rank> neighbours_;
  std::chrono::milliseconds absence_;  // of this process itself, in which others may have given it up
  std::chrono::milliseconds beat_;     // between signs of life; whoever wakes later than that has been away himself
  Liveness liveness_;

  base::UniqueFd bell_;  // an eventfd: there are commands
  mutable std::mutex lock_;
  std::condition_variable told_;
  // Guarded by lock_ from here on.
  std::vector<std::function<void()>> commands_;
  bool stopping_ = false;
  struct Outside {  // what other threads may know
    Fate fate = Fate::whole;
    Agreement agreement;
    std::vector<Rank> awaited;
    std::uint64_t together = 0;  // epoch
    bool connected = false;      // to all neighbours
    std::string ended;           // why the thread itself is no more; empty: it goes on
    [[nodiscard]] bool out() const { return fate == Fate::cut_off || fate == Fate::excluded || !ended.empty(); }
    bool in_doubt = false;   // a process has ended, and its goodbye may be on its way
    std::vector<Rank> lost;  // in the order in which it was learnt
    std::vector<Rank> left;  // said goodbye
  } outside_;
  std::uint64_t looks_ = 0;  // at processes, on request
  std::uint64_t questions_ = 0;
  std::map<std::uint64_t, std::map<Rank, Doing>> answers_;

  // Of the thread only.
  std::vector<PeerProcess> processes_;  // by rank; of other hosts: nobody
  std::vector<Rank> watched_;           // those of them whose end poll() tells
  MonitorLinks links_;
  Membership membership_;
  std::map<Rank, Clock::time_point> ended_;  // processes seen to have ended without a word: a goodbye may still come
  std::vector<Rank> polled_processes_;
  std::vector<pollfd> entries_;
  Clock::time_point next_beat_{};
  Clock::time_point planned_{};  // when the thread meant to wake
  bool changed_ = true;
  std::vector<Rank> lost_;  // in the order in which it was learnt

  std::thread thread_;  // last: it uses everything above
};

}  // namespace kolo::cluster
