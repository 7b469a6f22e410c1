// Messages of an MPI that takes memory of devices ("CUDA-aware"). One message of MPI's for each of ours, straight from
// and into the caller's memory: how it gets there (GPUDirect, IPC, or through the host) is MPI's affair. So receives
// must be as long as what is sent, which the ranks' plan sees to; the pieces of mpi_transport.cpp would want a place of
// the host's for what may be longer.
#include <mpi.h>

#include <algorithm>
#include <limits>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/keep_for_good.h"
#include "cluster/limits.h"
#include "cluster/mpi_runtime.h"
#include "kolo/error.h"
#include "transport/device_transport.h"
#include "transport/make.h"
#include "transport/mpi_tags.h"

namespace kolo::transport {
namespace {

using cluster::check_mpi;
using cluster::MpiTurn;

constexpr std::chrono::milliseconds kRetraction{100};
constexpr std::chrono::microseconds kNap{50};

struct Message {
  MPI_Request request = MPI_REQUEST_NULL;
  bool receives = false;
  bool done = false;
  std::size_t size = 0;
};

class MpiDeviceTransport final : public DeviceTransport {
 public:
  MpiDeviceTransport(const void* handle, telemetry::Counters& counters)
      : comm_(handle, base::Deadline(cluster::kBootstrapTimeout)), counters_(counters), last_tag_(last_mpi_tag()) {}
  ~MpiDeviceTransport() override;

  [[nodiscard]] Rank rank() const noexcept override { return comm_.rank(); }
  [[nodiscard]] int size() const noexcept override { return comm_.size(); }
  [[nodiscard]] std::unique_ptr<Transfer> send(Rank to, Tag tag, std::span<const std::byte> data) override;
  [[nodiscard]] std::unique_ptr<Transfer> receive(Rank from, Tag tag, std::span<std::byte> into) override;
  void wait_for_activity(std::chrono::microseconds at_most) override {
    std::this_thread::sleep_for(std::min(at_most, kNap));
  }
  void wake() noexcept override {}
  [[nodiscard]] std::uint64_t completed() const noexcept override { return completed_; }
  [[nodiscard]] Tag last_tag() const noexcept override { return last_tag_; }
  void keep(std::shared_ptr<void> memory) override { kept_.push_back(std::move(memory)); }

  // Looks at it once.
  void test(Message& message);
  void abandon(Message message) noexcept;

 private:
  [[nodiscard]] static int count_of(std::size_t bytes);
  void retract(Message& message) noexcept;
  [[nodiscard]] bool is_touched() noexcept;

  cluster::MpiComm comm_;
  telemetry::Counters& counters_;
  Tag last_tag_;
  std::uint64_t completed_ = 0;
  std::vector<Message> abandoned_;  // not done
  std::vector<std::shared_ptr<void>> kept_;
};

class MpiDeviceTransfer final : public Transfer {
 public:
  MpiDeviceTransfer(MpiDeviceTransport& transport, Message message) : transport_(transport), message_(message) {}
  ~MpiDeviceTransfer() override {
    if (!message_.done) transport_.abandon(message_);
  }
  MpiDeviceTransfer(const MpiDeviceTransfer&) = delete;
  MpiDeviceTransfer& operator=(const MpiDeviceTransfer&) = delete;
  bool test() override {
    if (!message_.done) transport_.test(message_);
    return message_.done;
  }
  [[nodiscard]] std::size_t size() const noexcept override { return message_.size; }

 private:
  MpiDeviceTransport& transport_;
  Message message_;
};

int MpiDeviceTransport::count_of(std::size_t bytes) {
  if (bytes > static_cast<std::size_t>(std::numeric_limits<int>::max())) {
    throw UsageError("a message between devices of " + std::to_string(bytes) + " bytes: MPI takes 2147483647 at most");
  }
  return static_cast<int>(bytes);
}

std::unique_ptr<Transfer> MpiDeviceTransport::send(Rank to, Tag tag, std::span<const std::byte> data) {
  Message message;
  message.size = data.size();
  {
    const MpiTurn turn;
    check_mpi(MPI_Isend(data.data(), count_of(data.size()), MPI_BYTE, to, static_cast<int>(tag), comm_.get(),
                        &message.request),
              "MPI_Isend");
  }
  counters_.messages_sent.add();
  counters_.bytes_on_wire.add(data.size());
  return std::make_unique<MpiDeviceTransfer>(*this, message);
}

std::unique_ptr<Transfer> MpiDeviceTransport::receive(Rank from, Tag tag, std::span<std::byte> into) {
  Message message;
  message.receives = true;
  {
    const MpiTurn turn;
    check_mpi(MPI_Irecv(into.data(), count_of(into.size()), MPI_BYTE, from, static_cast<int>(tag), comm_.get(),
                        &message.request),
              "MPI_Irecv");
  }
  return std::make_unique<MpiDeviceTransfer>(*this, message);
}

void MpiDeviceTransport::test(Message& message) {
  counters_.mpi_calls.add();
  MPI_Status status{};
  int done = 0;
  const MpiTurn turn;
  check_mpi(MPI_Test(&message.request, &done, &status), message.receives ? "receiving" : "sending");
  if (done == 0) return;
  message.done = true;
  ++completed_;
  if (!message.receives) return;
  int bytes = 0;
  check_mpi(MPI_Get_count(&status, MPI_BYTE, &bytes), "MPI_Get_count");
  message.size = static_cast<std::size_t>(bytes);
}

// One that MPI has ended with an error has no request any more.
void MpiDeviceTransport::abandon(Message message) noexcept {
  if (!cluster::mpi_usable() || message.request == MPI_REQUEST_NULL) return;
  retract(message);
  if (!message.done) abandoned_.push_back(message);
}

// A receive can be taken back until its message has begun to come; a send cannot, and is looked at once.
void MpiDeviceTransport::retract(Message& message) noexcept {
  try {
    const base::Deadline deadline(message.receives ? kRetraction : std::chrono::milliseconds(0));
    if (message.receives) {
      const MpiTurn turn;
      check_mpi(MPI_Cancel(&message.request), "MPI_Cancel");
    }
    do {
      test(message);
    } while (!message.done && !deadline.passed());
  } catch (const Error&) {  // MPI does not answer: it keeps what it has
  }
}

// Whether MPI has still something of what was abandoned.
bool MpiDeviceTransport::is_touched() noexcept {
  const base::Deadline deadline(kRetraction);
  try {
    do {
      for (Message& message : abandoned_) {
        if (!message.done) test(message);
      }
      std::erase_if(abandoned_, [](const Message& message) { return message.done; });
    } while (!abandoned_.empty() && !deadline.passed());
  } catch (const Error&) {
  }
  return !abandoned_.empty();
}

MpiDeviceTransport::~MpiDeviceTransport() {
  comm_.keep();
  const bool touched = !abandoned_.empty() && (!cluster::mpi_usable() || is_touched());
  if (touched) base::keep_for_good(std::move(kept_));
}

}  // namespace

std::unique_ptr<DeviceTransport> make_mpi_for_devices(const void* mpi_comm, telemetry::Counters& counters) {
  cluster::require_mpi();
  return std::make_unique<MpiDeviceTransport>(mpi_comm, counters);
}

}  // namespace kolo::transport
