#pragma once
// One rank that trains on its device, one value for all gradients.
#include <gmock/gmock.h>

#include <memory>
#include <vector>

#include "multirank/device/device_world.h"

namespace kolo::test {

struct Trainer {
  Trainer(DeviceWorld& world, Context& context, std::vector<std::int64_t> counts = {100, 3000, 7})
      : model(world, context.rank(), std::move(counts), false),
        reducer(context.engine().make_reducer(model.table(), model.options())),
        world_(world) {}
  // What was contributed goes when nothing in the streams that it came from uses it any more.
  ~Trainer() {
    reducer.reset();
    synchronize();
  }

  void backward(float value) {
    for (std::size_t index = 0; index < model.table().size(); ++index) {
      model.make(index, value);
      reducer->contribute(index, model.data(index), model.backward());
    }
  }
  std::shared_ptr<std::vector<float>> step(float value) {
    backward(value);
    reducer->finish(model.user());
    return model.use(reducer->gradient(1));
  }
  void synchronize() { world_.runtime()->api().stream_synchronize(model.user().handle); }

  DeviceModel model;
  std::unique_ptr<GradientReducer> reducer;

 private:
  DeviceWorld& world_;
};

// After good steps on all ranks: what comes then is past what is made once. Every rank calls `then`, and no rank goes
// on before all have.
template <class Then>
void after_good_steps(Trainer& trainer, Context& context, int steps, const Then& then) {
  for (int step = 0; step < steps; ++step) trainer.step(1);
  trainer.synchronize();
  context.communicator().barrier(std::chrono::seconds(20));
  then();
  context.communicator().barrier(std::chrono::seconds(20));
}

// Goes on until the group ends, with an error in which `word` is.
inline void step_until_error(Trainer& trainer, const std::string& word) {
  bool failed = false;
  for (int step = 0; step < 1000 && !failed; ++step) {
    try {
      trainer.step(1);
    } catch (const Error& error) {
      failed = true;
      EXPECT_THAT(error.what(), testing::HasSubstr(word));
    }
  }
  EXPECT_TRUE(failed);
}

// After one good step rank 0's device refuses to copy. Throws what this rank is told of that.
inline void step_without_copies(DeviceWorld& world, Context& context) {
  Trainer trainer(world, context);
  trainer.step(1);
  trainer.synchronize();
  context.communicator().barrier(std::chrono::seconds(20));
  if (context.rank() == 0) world.device().fail("copy", 999);
  for (int step = 0; step < 3; ++step) trainer.step(2);
  ADD_FAILURE() << "rank " << context.rank() << " was not told";
}

}  // namespace kolo::test
