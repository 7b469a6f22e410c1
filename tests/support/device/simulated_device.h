#pragma once
// Devices that are not there: what src/cuda needs of a CUDA runtime, on memory of the host, so that a missing wait is a
// failing test on any machine. README.md says what is simulated and what is not.
//
//   SimulatedDevice device({.devices = 2, .seed = seed});
//   const auto runtime = std::make_shared<const cuda::Runtime>(device.api());
//
// Nothing runs when it is enqueued. Whenever anybody asks (a query, a synchronisation, run_some(), drain()) a random
// number of operations run, in any order that the edges allow; what is not allowed is noted as a violation.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "cuda/runtime_api.h"

namespace kolo::test {

enum class Access : std::uint8_t { read, write };

struct Range {
  const void* memory = nullptr;
  std::size_t bytes = 0;
  Access access = Access::read;
};

using OperationId = std::uint64_t;  // unique in a SimulatedDevice, never 0

// Something that a stream does. The functions are called with the device's lock held, possibly from another thread and
// as late as in the device's destructor: they own what they use. They make no calls of the RuntimeApi.
struct Operation {
  std::string what{};               // for texts: "all_reduce 3 of rank 1"
  std::vector<Range> ranges{};      // what it reads and writes. Null memory or no bytes: nothing
  std::function<void()> run{};      // may be empty
  std::function<void()> arrived{};  // optional: called once, when all that it is ordered behind is done
  std::function<bool()> ready{};    // optional: asked after that, again and again; it runs when this says true
  // Optional: the operations, enqueued already, that have to arrive before ready() can say true. A deadlock is found
  // with it. What has arrived or run already may be among them.
  std::function<std::vector<OperationId>()> waits_on{};
  std::function<std::string()> missing{};  // optional: what ready() waits for that is not enqueued yet, in words
  // Runs after these also. An order of running only: it orders no accesses to memory.
  std::vector<OperationId> behind{};
  std::chrono::nanoseconds takes{0};  // simulated time; see DeviceOptions::takes
  // Optional: the operations that are carried out together with it, on other devices: none begins before all have
  // arrived. For simulated time.
  std::function<std::vector<OperationId>()> meets{};
};

enum class Fault : std::uint8_t {
  bad_memory,        // released, never allocated, of another device
  outside_memory,    // something wrote beside its memory, or into memory after its release
  race,              // two operations on one piece of memory, one of them writing, without an edge between them
  host_race,         // the host reads or writes what an operation may still write or read
  unrecorded_event,  // waited for or asked
  released_in_use,   // memory was released that operations use of which the host has not seen the end
  wrong_device,      // a call with another current device than it needs
  bad_handle,        // a stream, event, library or kernel that does not exist (any more)
  bad_call,          // arguments that no device takes
  broken_capture,    // a call that ends the capture of a graph
  deadlock,
};
[[nodiscard]] std::string_view fault_name(Fault fault);

struct Violation {
  Fault fault;
  std::string text;
};

struct DeviceOptions {
  int devices = 1;
  std::uint64_t seed = 1;
  std::size_t memory = std::size_t{1} << 30;  // of one device; more is refused as a device refuses it
  // What devices are said to have of each other; copies between them work in any case.
  bool peer_access = true;
  bool native_atomics = false;
  bool uuids = false;  // whether they have such, each its number counted from 1
  // Whether what a query has found to have passed comes before what the process enqueues from then on. It does, on a
  // device; but a program that orders by waits only has to be right without, and then no lucky poll hides a missing
  // one.
  bool polls_order = true;
  // How long a call that blocks (stream_synchronize) waits while nothing at all happens before that is called a
  // deadlock. One that is certain, because operations wait for each other in a circle, is found without waiting.
  std::chrono::milliseconds patience{20'000};
  // How long an operation takes, by its text, in place of Operation::takes. Null: as that says.
  std::function<std::chrono::nanoseconds(const std::string& what)> takes{};
};

using KernelBody = std::function<void(const void* arguments, unsigned blocks, unsigned threads)>;
// Called right before the body: tables that the arguments point to are in the device's memory by then.
using KernelRanges = std::function<std::vector<Range>(const void* arguments)>;

class DeviceCore;

// One at a time in a process. Ranks are threads; the current device belongs to the thread and is 0 at first. The
// destructor runs what is enqueued, as far as it can run, and fails the test for every violation that was not taken.
class SimulatedDevice {
 public:
  explicit SimulatedDevice(const DeviceOptions& options = {});
  ~SimulatedDevice();
  SimulatedDevice(const SimulatedDevice&) = delete;
  SimulatedDevice& operator=(const SimulatedDevice&) = delete;

  [[nodiscard]] cuda::RuntimeApi api() const;

  // Memory that tests fill and look at by themselves. peek() waits for nothing: drain() first.
  void write(void* memory, const void* from, std::size_t bytes);
  void peek(void* to, const void* memory, std::size_t bytes) const;
  // The host is about to read (write) pinned memory: everything that writes (uses) it must be known to have ended.
  void host_reads(const void* memory, std::size_t bytes);
  void host_writes(const void* memory, std::size_t bytes);

  void add_kernel(std::string name, std::size_t argument_bytes, KernelBody body, KernelRanges ranges = {});

  // Puts an operation into a stream; null: the default stream of the thread's current device.
  OperationId enqueue(cuda::StreamHandle stream, Operation operation);
  // An address that stands for a thing used by operations (a communicator): a Range of 1 byte that is written there
  // says that it is used by one operation at a time, in an order that edges make.
  [[nodiscard]] void* token(std::string what);
  // For whoever adds operations: their functions run under this lock.
  [[nodiscard]] std::unique_lock<std::recursive_mutex> lock() const;
  // Something that ready() looks at has changed: wakes calls that block.
  void changed();
  void report(Fault fault, std::string text);

  // Simulated time passes for the host: nothing that is enqueued from now on begins before that. Operations take time
  // as they say, whatever the schedule: one begins when all that it is ordered behind has ended. Copies and kernels
  // take none, unless DeviceOptions::takes says so.
  void pass_time(std::chrono::nanoseconds time);
  // DeviceOptions::polls_order from now on.
  void set_polls_order(bool order);

  void run_some();
  // Runs everything, and the host knows it. REQUIRES: nobody enqueues meanwhile. What cannot run then is a deadlock:
  // false.
  bool drain();
  [[nodiscard]] std::size_t queued() const;

  // The next `times` calls of a member of the table ("allocate") are answered with `status` and do nothing; -1: all.
  void fail(const std::string& call, cuda::Status status, int times = 1);
  [[nodiscard]] int calls(std::string_view call) const;  // how often a member of the table was called
  [[nodiscard]] int launches(std::string_view kernel) const;
  [[nodiscard]] std::size_t device_bytes(int device) const;  // allocated now
  [[nodiscard]] std::size_t pinned_bytes() const;            // registered ones too
  // Those that this process has used: on a true device each has a context, which takes some hundred MB.
  [[nodiscard]] std::set<int> contexts() const;
  [[nodiscard]] int live_streams() const;
  [[nodiscard]] int live_events() const;
  [[nodiscard]] int timed_events() const;  // that were ever made
  void set_capturing(cuda::StreamHandle stream, bool capturing);
  [[nodiscard]] int priority(cuda::StreamHandle stream) const;  // what it was made with

  [[nodiscard]] std::vector<Violation> violations() const;
  // These have been dealt with: the destructor does not fail the test for them.
  std::vector<Violation> take_violations();

 private:
  std::shared_ptr<DeviceCore> core_;  // shared with calls that are being made
};

}  // namespace kolo::test
