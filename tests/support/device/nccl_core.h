#pragma once
// What a simulated NCCL consists of. The device's lock guards all of it.
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "support/device/simulated_nccl.h"

namespace kolo::test {

enum class CallKind : std::uint8_t { all_reduce, broadcast, reduce, all_gather, reduce_scatter };
[[nodiscard]] std::string_view name_of(CallKind kind);

struct NcclCall {
  CallKind kind = CallKind::all_reduce;
  const std::byte* in = nullptr;
  std::byte* out = nullptr;
  std::size_t count = 0;
  nccl::Type type = nccl::Type::u8;
  nccl::Op op = nccl::Op::sum;
  int root = 0;
  std::optional<SimulatedAlgorithm> algorithm;
};

// The bytes that a call of `rank` reads and writes.
struct Extent {
  std::size_t in = 0;
  std::size_t out = 0;
};
[[nodiscard]] Extent extent_of(const NcclCall& call, int rank, int ranks);
[[nodiscard]] std::string words_of(const NcclCall& call);  // without addresses: equal where ranks agree

// A collective of all ranks of a world: what is known of each side and, once one of them has run, the results of all.
class Meeting {
 public:
  Meeting(std::string name, int sides) : name_(std::move(name)), sides_(static_cast<std::size_t>(sides)) {}

  void join(int side, const NcclCall& call) {
    sides_[static_cast<std::size_t>(side)].call = call, at(side).joined = true;
  }
  void enqueued(int side, OperationId id) { at(side).id = id; }
  void arrive(int side) { at(side).arrived = true; }
  void leave(int side) { at(side).left = !computed_; }  // aborted: if it did not run, it never will
  void spoil() { spoiled_ = true; }                     // what the sides want does not fit: nothing is computed
  [[nodiscard]] bool joined(int side) const { return at(side).joined; }
  [[nodiscard]] const NcclCall& call(int side) const { return at(side).call; }
  [[nodiscard]] bool ready() const;
  void wait_list(int side, std::vector<OperationId>& into) const;
  void add_ids(std::vector<OperationId>& into) const;  // of all sides
  [[nodiscard]] std::string missing() const;
  // Writes the result of `side`. REQUIRES: ready().
  void run(int side);
  [[nodiscard]] int sides() const { return static_cast<int>(sides_.size()); }
  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  struct Side {
    NcclCall call;
    OperationId id = 0;
    bool joined = false;
    bool arrived = false;
    bool left = false;
    std::vector<std::byte> result;
  };
  [[nodiscard]] Side& at(int side) { return sides_[static_cast<std::size_t>(side)]; }
  [[nodiscard]] const Side& at(int side) const { return sides_[static_cast<std::size_t>(side)]; }
  void compute();
  [[nodiscard]] std::vector<std::byte> gathered() const;
  [[nodiscard]] std::vector<std::byte> reduced() const;

  std::string name_;
  std::vector<Side> sides_;
  bool computed_ = false;
  bool spoiled_ = false;
};

struct SimulatedComm;

// All ranks of one communicator.
struct World {
  int number = 0;
  std::vector<std::shared_ptr<SimulatedComm>> ranks;  // null: not there yet
  std::vector<std::shared_ptr<Meeting>> meetings;
  [[nodiscard]] bool complete() const;
};

struct Part {
  std::shared_ptr<Meeting> meeting;
  int side = 0;
  NcclCall call;
};

// What one rank has grouped, until it is in the stream.
struct PendingLaunch {
  cuda::StreamHandle stream = nullptr;
  std::vector<NcclCall> calls;
};

struct SimulatedComm {
  enum class Life : std::uint8_t { live, finalizing, destroyed, aborted };
  std::shared_ptr<World> world;
  int rank = -1;
  int wanted_device = -1;
  std::optional<SimulatedAlgorithm> algorithm;  // of all its allreduces; none: by size
  Life life = Life::live;
  nccl::Result error = nccl::Result::success;
  std::string text;
  int polls = 0;  // for which it is still in progress
  std::vector<PendingLaunch> pending;
  std::size_t launches = 0;
  std::size_t meetings = 0;
  std::map<std::size_t, std::vector<Range>> queued;  // what launches that have not run use
  void* token = nullptr;
  std::set<void*> registered;
  [[nodiscard]] bool ended() const { return life == Life::destroyed || life == Life::aborted; }
};

class NcclCore {
 public:
  NcclCore(SimulatedDevice& device, const NcclOptions& options);

  void report(const std::string& text) { device.report(Fault::bad_call, "NCCL: " + text); }
  nccl::Result enter(const std::string& call);  // counts it; not success: what fail() wants
  // Null, and reported, for one that is none or has ended.
  SimulatedComm* find(nccl::Comm comm, const char* call);
  std::shared_ptr<SimulatedComm> add_comm();
  void place(const std::shared_ptr<SimulatedComm>& comm, const std::shared_ptr<World>& world, int rank);
  nccl::Result state(SimulatedComm& comm);
  // What a thread has grouped: into the communicator's pending ones, or refused.
  nccl::Result submit(SimulatedComm& comm, PendingLaunch launch);
  void abort(SimulatedComm& comm);
  nccl::Result deregister_buffer(SimulatedComm& comm, void* memory);

  SimulatedDevice& device;
  const NcclOptions options;
  std::mt19937_64 random;
  std::vector<std::shared_ptr<SimulatedComm>> comms;
  std::map<std::string, std::shared_ptr<World>> worlds;  // by unique id
  std::map<std::string, int> counts;
  std::map<std::string, std::pair<nccl::Result, int>> failures;
  std::map<SimulatedAlgorithm, int> launched;
  std::map<void*, std::size_t> memory;  // of ncclMemAlloc, and bytes
  int ids = 0;
  int world_count = 0;

 private:
  void launch(SimulatedComm& comm, PendingLaunch launch);
  Part join(SimulatedComm& comm, NcclCall call);
  void check_fit(const Meeting& meeting, int side, World& world);
};

// simulated_nccl_calls.cpp
[[nodiscard]] nccl::NcclApi simulated_nccl_api();
void install(std::shared_ptr<NcclCore> core);  // null: none

}  // namespace kolo::test
