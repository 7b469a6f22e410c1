// Every wait that the device path makes is needed: without it the simulated device finds a race, whatever the order in
// which things run.
#include <gmock/gmock.h>

#include <atomic>
#include <map>
#include <mutex>

#include "multirank/device/device_world.h"
#include "support/sanitizers.h"

namespace kolo::test {
namespace {

// Who waits for whom, by what their streams are for. The lane is kolo's own.
enum class Role { lane, backward, user };
struct Wait {
  Role later;
  Role earlier;
};

// A table that leaves out the waits of one kind. One at a time.
class Mutant {
 public:
  Mutant() { instance_ = this; }
  ~Mutant() { instance_ = nullptr; }
  Mutant(const Mutant&) = delete;
  Mutant& operator=(const Mutant&) = delete;

  void leave_out(Wait wait) { left_out_ = wait; }
  void set_role(cuda::StreamHandle stream, Role role) {
    const std::scoped_lock lock(lock_);
    roles_[stream] = role;
  }
  [[nodiscard]] int left_out() const { return count_; }

  // `real` outlives this.
  [[nodiscard]] cuda::RuntimeApi over(const cuda::RuntimeApi& real) {
    real_ = real;
    cuda::RuntimeApi api = real;
    api.event_record = [](cuda::EventHandle event, cuda::StreamHandle stream) {
      return instance_->record(event, stream);
    };
    api.stream_wait_event = [](cuda::StreamHandle stream, cuda::EventHandle event, unsigned flags) {
      return instance_->wait(stream, event, flags);
    };
    return api;
  }

 private:
  Role role_of(cuda::StreamHandle stream) const {
    const auto found = roles_.find(stream);
    return found == roles_.end() ? Role::lane : found->second;
  }
  cuda::Status record(cuda::EventHandle event, cuda::StreamHandle stream) {
    {
      const std::scoped_lock lock(lock_);
      recorded_in_[event] = role_of(stream);
    }
    return real_.event_record(event, stream);
  }
  cuda::Status wait(cuda::StreamHandle stream, cuda::EventHandle event, unsigned flags) {
    {
      const std::scoped_lock lock(lock_);
      if (left_out_ && role_of(stream) == left_out_->later && recorded_in_[event] == left_out_->earlier) {
        ++count_;
        return cuda::kSuccess;
      }
    }
    return real_.stream_wait_event(stream, event, flags);
  }

  static inline Mutant* instance_ = nullptr;
  cuda::RuntimeApi real_;
  std::mutex lock_;
  std::map<cuda::StreamHandle, Role> roles_;
  std::map<cuda::EventHandle, Role> recorded_in_;
  std::optional<Wait> left_out_;
  int count_ = 0;
};

// Nothing behind it runs until it is open: what a host has seen to have ended needs no wait any more, and would hide
// one that is missing.
class Gate {
 public:
  explicit Gate(SimulatedDevice& device) : device_(device) {}
  void put_into(Stream stream) {
    Operation operation;
    operation.what = "gate";
    operation.ready = [this] { return open_.load(); };
    device_.enqueue(stream.handle, std::move(operation));
  }
  void open() {
    open_ = true;
    device_.changed();
  }

 private:
  SimulatedDevice& device_;
  std::atomic<bool> open_ = false;
};

// Three steps on two ranks; in the second one rank 1 has no gradient, and so nothing of its own to wait for.
void train(DeviceWorld& world, Mutant& mutant, Context& context) {
  DeviceModel model(world, context.rank(), {100, 3000, 7}, true);
  mutant.set_role(model.backward().handle, Role::backward);
  mutant.set_role(model.user().handle, Role::user);
  auto reducer = context.engine().make_reducer(model.table(), model.options());
  Gate gate(world.device());
  gate.put_into(model.backward());
  gate.put_into(model.user());
  for (int step = 0; step < 3; ++step) {
    model.begin_backward();
    for (std::size_t index = 0; index < 3 && !(step == 1 && context.rank() == 1); ++index) {
      model.make(index, 1);
      reducer->contribute(index, model.data(index), model.backward());
    }
    reducer->finish(model.user());
    for (std::size_t index = 0; index < 3; ++index) model.use(reducer->gradient(index));
  }
  gate.open();
  for (const Stream stream : {model.backward(), model.user()}) {
    world.runtime()->api().stream_synchronize(stream.handle);
  }
}

std::vector<Violation> violations_without(std::optional<Wait> wait, std::uint64_t seed, int& left_out) {
  Mutant mutant;
  if (wait) mutant.leave_out(*wait);
  auto config = quick();
  config.bucket_bytes = 4096;
  DeviceWorld world({one_host(2), seed, config}, [&](const cuda::RuntimeApi& real) { return mutant.over(real); });
  world.run([&](Context& context) { train(world, mutant, context); });
  left_out = mutant.left_out();
  return world.device().take_violations();
}

std::string_view name_of(Role role) {
  return role == Role::lane ? "the lane" : role == Role::backward ? "backward" : "the user";
}

class Mutation : public testing::TestWithParam<Wait> {};
INSTANTIATE_TEST_SUITE_P(Waits, Mutation,
                         testing::Values(Wait{Role::lane, Role::backward}, Wait{Role::lane, Role::user},
                                         Wait{Role::user, Role::lane}, Wait{Role::backward, Role::user}),
                         [](const auto& one) { return std::to_string(one.index); });

TEST_P(Mutation, IsFoundWhateverTheOrder) {
  for (int seed = 1; seed <= (kSanitized ? 3 : 20); ++seed) {
    int left_out = 0;
    const auto found = violations_without(GetParam(), static_cast<std::uint64_t>(seed), left_out);
    EXPECT_GT(left_out, 0);
    EXPECT_THAT(found, testing::Contains(testing::Field(&Violation::fault, Fault::race)))
        << name_of(GetParam().later) << " does not wait for " << name_of(GetParam().earlier) << ", seed " << seed;
  }
}

TEST(NoMutation, WithAllWaitsNothingIsFound) {
  for (int seed = 1; seed <= (kSanitized ? 3 : 20); ++seed) {
    int left_out = 0;
    EXPECT_TRUE(violations_without(std::nullopt, static_cast<std::uint64_t>(seed), left_out).empty()) << seed;
    EXPECT_EQ(left_out, 0);
  }
}

}  // namespace
}  // namespace kolo::test
