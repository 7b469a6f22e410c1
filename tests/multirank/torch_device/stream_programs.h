#pragma once
// Training with its parts in this stream and that. Whoever computes in several streams orders them, as with torch
// alone.
#include "multirank/torch_device/trainee.h"

namespace kolo::test {

inline Tensors plain(Place& place) {
  Trainee it(place);
  for (int step = 0; step < kSteps; ++step) {
    it.optimizer.zero_grad();
    it.loss(step).backward();
    it.optimizer.step();
  }
  return it.net.values();
}

// Gradients stay and are added to, in kolo's memory.
inline Tensors zeroed_in_place(Place& place) {
  Trainee it(place);
  for (int step = 0; step < kSteps; ++step) {
    it.optimizer.zero_grad(false);
    it.loss(step).backward();
    it.optimizer.step();
  }
  return it.net.values();
}

inline Tensors backward_in_a_side_stream(Place& place) {
  Trainee it(place);
  const UserStream main = place.main();
  const UserStream side = place.side();
  for (int step = 0; step < kSteps; ++step) {
    it.optimizer.zero_grad();
    in_side_stream(main, side, [&] { it.loss(step).backward(); });
    it.optimizer.step();
  }
  return it.net.values();
}

// Into the last result, which is kolo's memory: nobody has let go of it.
template <bool kZeroed>
Tensors added_in_a_side_stream(Place& place) {
  Trainee it(place);
  const UserStream main = place.main();
  const UserStream side = place.side();
  for (int step = 0; step < kSteps; ++step) {
    if (kZeroed) it.optimizer.zero_grad(false);  // in the main one
    in_side_stream(main, side, [&] { it.loss(step).backward(); });
    it.optimizer.step();
  }
  return it.net.values();
}

// The same with the other parts elsewhere; and what detach() leaves is read in the main one.
inline Tensors zeroed_after_a_step_in_a_side_stream(Place& place) {
  Trainee it(place);
  const UserStream main = place.main();
  const UserStream side = place.side();
  for (int step = 0; step < kSteps; ++step) {
    it.optimizer.zero_grad(false);
    it.loss(step).backward();
    in_side_stream(main, side, [&] { it.optimizer.step(); });
  }
  it.optimizer.detach();
  Tensors all = it.net.values();
  for (const auto& parameter : it.net.parameters()) all.push_back(parameter.grad().cpu());
  return all;
}

// The forward pass in one stream, backward() called in another.
inline Tensors backward_called_from_elsewhere(Place& place) {
  Trainee it(place);
  const UserStream main = place.main();
  const UserStream side = place.side();
  for (int step = 0; step < kSteps; ++step) {
    side.wait_for(main);
    at::Tensor loss;
    {
      const auto guard = side.enter();
      loss = it.loss(step);
    }
    it.optimizer.zero_grad();
    loss.backward();
    it.optimizer.step();
  }
  return it.net.values();
}

inline Tensors step_in_a_side_stream(Place& place) {
  Trainee it(place);
  const UserStream main = place.main();
  const UserStream side = place.side();
  for (int step = 0; step < kSteps; ++step) {
    it.optimizer.zero_grad();
    it.loss(step).backward();
    in_side_stream(main, side, [&] { it.optimizer.step(); });
  }
  return it.net.values();
}

// Clipping, say, is in one stream, all else in another.
inline Tensors synchronize_elsewhere(Place& place) {
  Trainee it(place);
  const UserStream main = place.main();
  const UserStream side = place.side();
  side.wait_for(main);
  for (int step = 0; step < kSteps; ++step) {
    const auto guard = side.enter();
    it.optimizer.zero_grad();
    it.loss(step).backward();
    in_side_stream(side, main, [&] { it.optimizer.synchronize(); });
    it.optimizer.step();
  }
  main.wait_for(side);
  return it.net.values();
}

// Now in this stream, now in that.
inline Tensors step_in_changing_streams(Place& place) {
  Trainee it(place);
  const UserStream streams[] = {place.main(), place.side(), place.side()};
  for (int step = 0; step < 2 * kSteps; ++step) {
    const UserStream& here = streams[step % 3];
    const auto guard = here.enter();
    if (step > 0) here.wait_for(streams[(step - 1) % 3]);
    it.loss(step).backward();
    it.optimizer.step();
    it.optimizer.zero_grad();
  }
  place.main().wait_for(streams[(2 * kSteps - 1) % 3]);
  return it.net.values();
}

inline Tensors two_models(Place& place) {
  Trainee one(place, 1);
  Trainee other(place, 100);
  const UserStream main = place.main();
  const UserStream side = place.side();
  side.wait_for(main);
  for (int step = 0; step < kSteps; ++step) {
    one.optimizer.zero_grad();
    one.loss(step).backward();
    {
      const auto guard = side.enter();
      other.optimizer.zero_grad();
      other.loss(step).backward();
      other.optimizer.step();
    }
    one.optimizer.step();
  }
  main.wait_for(side);
  Tensors all = one.net.values();
  for (auto& value : other.net.values()) all.push_back(std::move(value));
  return all;
}

}  // namespace kolo::test
