#pragma once
// Training with gradients that are kept, changed, dropped, missing, or made otherwise than by one backward pass.
#include "multirank/torch_device/trainee.h"

namespace kolo::test {

// What a user holds of a step stays as it was then, through the next steps and after the end of the optimizer.
inline Tensors gradients_kept(Place& place) {
  Tensors kept;
  Tensors all;
  {
    Trainee it(place);
    for (int step = 0; step < kSteps; ++step) {
      it.optimizer.zero_grad();
      it.loss(step).backward();
      it.optimizer.step();
      kept.push_back(it.gradient(0));
      kept.push_back(it.gradient(3).view({3, 1}));  // shares the memory only
    }
    all = it.net.values();
  }
  for (const auto& gradient : kept) all.push_back(gradient.cpu());
  return all;
}

// The same, where the copies are made by hooks in another stream than that of the results.
inline Tensors gradients_kept_elsewhere(Place& place) {
  Tensors kept;
  Trainee it(place);
  const UserStream main = place.main();
  const UserStream side = place.side();
  for (int step = 0; step < kSteps; ++step) {
    it.optimizer.zero_grad();
    in_side_stream(main, side, [&] { it.loss(step).backward(); });
    it.optimizer.step();
    for (const auto& parameter : it.net.parameters()) kept.push_back(parameter.grad());
  }
  Tensors all = it.net.values();
  for (const auto& gradient : kept) all.push_back(gradient.cpu());
  return all;
}

inline Tensors gradients_changed_before_the_step(Place& place) {
  Trainee it(place);
  for (int step = 0; step < kSteps; ++step) {
    it.optimizer.zero_grad();
    it.loss(step).backward();
    it.optimizer.synchronize();
    for (const auto& parameter : it.net.parameters()) parameter.mutable_grad().mul_(0.5);
    it.optimizer.step();
  }
  return it.net.values();
}

// The user lets go of gradients as soon as they are made, and of results as soon as they are used; memory that others
// still read comes back in the next line's tensors.
inline Tensors gradients_dropped(Place& place) {
  Trainee it(place);
  const UserStream main = place.main();
  const UserStream side = place.side();
  for (int step = 0; step < kSteps; ++step) {
    in_side_stream(main, side, [&] {
      it.loss(step).backward();
      for (const auto& parameter : it.net.parameters()) parameter.mutable_grad().reset();
      static_cast<void>(it.loss(step + 100));
    });
    it.optimizer.step();
    for (const auto& parameter : it.net.parameters()) parameter.mutable_grad().reset();
  }
  return it.net.values();
}

// Rank 1 does not use the second layer in every other step.
inline Tensors parameters_without_a_gradient(Place& place) {
  Trainee it(place);
  for (int step = 0; step < 2 * kSteps; ++step) {
    it.optimizer.zero_grad();
    const bool whole = it.rank == 0 || step % 2 == 0;
    (whole ? it.loss(step) : it.net.parameters()[0].pow(2).sum()).backward();
    it.optimizer.step();
  }
  return it.net.values();
}

// The program clears one tensor, of which all gradients are views; some steps are taken in another stream.
inline Tensors gradients_in_a_flat_tensor(Place& place) {
  Trainee it(place);
  const UserStream main = place.main();
  const UserStream side = place.side();
  std::int64_t count = 0;
  for (const auto& parameter : it.net.parameters()) count += parameter.numel();
  const at::Tensor flat = torch::zeros({count}, torch::TensorOptions(place.device));
  std::int64_t offset = 0;
  for (const auto& parameter : it.net.parameters()) {
    parameter.mutable_grad() = flat.narrow(0, offset, parameter.numel()).view(parameter.sizes());
    offset += parameter.numel();
  }
  for (int step = 0; step < 2 * kSteps; ++step) {
    flat.zero_();
    in_side_stream(main, side, [&] { it.loss(step).backward(); });
    if (step % 2 == 0) {
      it.optimizer.step();
    } else {
      in_side_stream(main, side, [&] { it.optimizer.step(); });
    }
  }
  Tensors all = it.net.values();
  all.push_back(flat.cpu());
  return all;
}

inline Tensors several_passes(Place& place) {
  auto options = small_buckets_of_tensors();
  options.passes_per_step = 2;
  Trainee it(place, 1, options);
  for (int step = 0; step < kSteps; ++step) {
    it.optimizer.zero_grad();
    it.loss(2 * step).backward();
    it.loss(2 * step + 1).backward();
    it.optimizer.step();
  }
  return it.net.values();
}

// No hook brings these gradients: step() finds them.
inline Tensors gradients_made_without_hooks(Place& place) {
  Trainee it(place);
  for (int step = 0; step < kSteps; ++step) {
    it.optimizer.zero_grad();
    {
      const auto alone = it.optimizer.no_sync();
      it.loss(step).backward();
    }
    const at::Tensor& weight = it.net.parameters()[2];
    weight.mutable_grad() = weight.detach().t().contiguous().t() * (it.rank + 1);  // lies otherwise than the weight
    it.optimizer.step();
  }
  return it.net.values();
}

inline Tensors parameters_that_join(Place& place) {
  Trainee it(place);
  const at::Tensor extra = numbers(77, {40}).to(place.device).requires_grad_();
  for (int step = 0; step < 2 * kSteps; ++step) {
    if (step == 2) it.optimizer.add_param_group(torch::optim::OptimizerParamGroup({extra}), {{"extra", extra}});
    it.optimizer.zero_grad();
    (it.loss(step) + (extra * (it.rank + 1)).pow(2).sum()).backward();
    it.optimizer.step();
  }
  Tensors all = it.net.values();
  all.push_back(extra.detach().cpu());
  return all;
}

// The last rank has an error after its backward pass. The step is as if it had not been, on all.
inline Tensors a_step_that_fails(Place& place) {
  Trainee it(place);
  const UserStream main = place.main();
  const UserStream side = place.side();
  const bool fails = it.rank == place.context.size() - 1;
  for (int step = 0; step < 2 * kSteps; ++step) {
    const auto one_step = [&] {
      in_side_stream(main, side, [&] {
        it.optimizer.zero_grad();
        it.loss(step).backward();
      });
      if (step % 2 == 1 && fails) throw std::runtime_error("a bad batch");
      it.optimizer.step();
    };
    if (step % 2 == 0) {
      one_step();
    } else if (fails) {
      EXPECT_THROW(place.context.run(one_step), std::runtime_error);
    } else {
      EXPECT_THROW(one_step(), PeerFailedError);
    }
  }
  return it.net.values();
}

}  // namespace kolo::test
