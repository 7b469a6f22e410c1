#pragma once
// One rank that trains on its device, one value for all gradients.
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

}  // namespace kolo::test
