#pragma once
// All of the simulated devices, behind one lock; simulated_api.cpp makes a RuntimeApi of it.
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "support/device/device_memory.h"
#include "support/device/device_streams.h"
#include "support/device/simulated_device.h"

namespace kolo::test {

// Statuses, as the CUDA runtime numbers them.
inline constexpr cuda::Status kInvalidValue = 1;
inline constexpr cuda::Status kOutOfMemory = 2;
inline constexpr cuda::Status kNotInitialised = 3;
inline constexpr cuda::Status kInvalidConfiguration = 9;
inline constexpr cuda::Status kNoDevice = 100;
inline constexpr cuda::Status kInvalidDevice = 101;
inline constexpr cuda::Status kInvalidHandle = 400;
inline constexpr cuda::Status kSymbolNotFound = 500;
inline constexpr cuda::Status kAlreadyRegistered = 712;
inline constexpr cuda::Status kCaptureUnsupported = 900;
inline constexpr cuda::Status kDeadlocked = 702;  // "the launch timed out": what the driver says of work without end

struct SimulatedKernel {
  std::string name;
  std::size_t argument_bytes = 0;
  KernelBody body;
  KernelRanges ranges;
  int launches = 0;
};

class DeviceCore {
 public:
  explicit DeviceCore(const DeviceOptions& options);

  void report(Fault fault, std::string text);
  cuda::Status bad(Fault fault, std::string text, cuda::Status status) {
    report(fault, std::move(text));
    return status;
  }
  // Counts a call of the table; not kSuccess: what fail() wants it to answer.
  cuda::Status enter(const std::string& call);

  // The calling thread's, which belongs to this core only.
  [[nodiscard]] int& current_device() const;
  // Null, and reported, for a handle that is none.
  SimulatedStream* stream(cuda::StreamHandle handle, const char* call);
  SimulatedEvent* event(cuda::EventHandle handle, const char* call);

  Entry* enqueue(cuda::StreamHandle handle, Operation operation, const char* call);
  // Runs some operations; then kSuccess when all points have passed, and the host knows `clock`.
  cuda::Status query(const std::vector<Point>& points, const Clock& clock, bool blocking = false);
  cuda::Status wait(std::unique_lock<std::recursive_mutex>& held, const std::vector<Point>& points, const Clock& clock);
  cuda::Status release(void* memory, MemoryKind kind, const char* call);
  void host_uses(const Range& range);
  bool drain();
  // Something happened: calls that block look again.
  void moved() {
    ++moves;
    change.notify_all();
  }

  std::recursive_mutex mutex;  // guards everything below
  std::condition_variable_any change;
  std::uint64_t moves = 0;
  DeviceOptions options;
  std::vector<Violation> violations;
  std::size_t reported = 0;  // violations so far, taken or not
  bool deadlocked = false;   // one was reported
  DeviceMemory memory;
  DeviceStreams streams;
  std::unordered_map<const void*, std::unique_ptr<SimulatedEvent>>
      events;  // destroyed ones, too: no handle comes twice
  std::map<std::string, std::unique_ptr<SimulatedKernel>, std::less<>> kernels;
  std::vector<std::unique_ptr<int>> libraries;  // addresses serve as handles
  std::map<std::string, int, std::less<>> calls;
  std::set<int> contexts;       // devices that this process has used
  std::map<int, int> captures;  // by device: streams that are being captured
  struct Failure {
    cuda::Status status;
    int times;
  };
  std::map<std::string, Failure, std::less<>> failures;
  std::uint64_t generation = 0;  // tells this core from earlier ones in thread-local state

 private:
  void find_deadlock();
  std::uint64_t searched_at_ = ~std::uint64_t{0};  // `moves` when circles were last looked for
};

// simulated_api.cpp
[[nodiscard]] cuda::RuntimeApi simulated_api();
void install(std::shared_ptr<DeviceCore> core);  // null: none. Fails the program when there is one already.

}  // namespace kolo::test
