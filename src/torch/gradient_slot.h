#pragma once
// One parameter of the table: its hook, what it has contributed to the running round, and its view of the last result.
#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>
#include <torch/csrc/autograd/function_hook.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kolo/spi/gradient_reducer.h"
#include "torch/weak_tensor.h"

namespace kolo {

class GradientHook;

class GradientSlot {
 public:
  static constexpr std::size_t kDeparted = ~std::size_t{0};

  GradientSlot(at::Tensor of, GradientInfo described) : parameter(std::move(of)), info(std::move(described)) {}

  const at::Tensor parameter;
  GradientInfo info;
  std::size_t index = 0;            // in the reducer's table, or kDeparted
  GradientHook* hook = nullptr;     // ours, owned by the tensor
  std::uint64_t recorded_pass = 0;  // see StepRecorder::gradient_computed()
  int passes = 0;                   // hook calls in this round, those under no_sync not counted
  bool contributed = false;         // in this round
  bool copied = false;              // and as a copy of param.grad()
  at::Tensor kept;                  // what was contributed: the engine may read it until the round has ended
  bool in_place = false;            // and write to it
  bool held = false;                // param.grad() is the program's too, and the result is copied into it
  bool published = false;           // before the end of this round
  bool offered = false;             // its gradients are to be made in memory that its reducer gives

  // Makes param.grad() the reduced gradient in `memory`. If `held`, copies the result into it. Else
  // param.grad() becomes the contribution, if `memory` is its memory, or a view of `memory`: last
  // round's view, unless the program holds that.
  void publish(std::span<std::byte> memory);
  // On a device: behind what is enqueued in the calling thread's stream. `kept` stays for it until that has passed.
  [[nodiscard]] Stream ready_stream() const;
  // `stream` is behind the last that reads `kept`.
  void keep_for(const c10::Stream& stream) const noexcept;
  // Whether somebody holds last round's view, whose memory will be written again.
  [[nodiscard]] bool is_held() const;
  // Before kolo's memory is written again: whoever still holds last round's view (param.grad() itself, a tensor kept by
  // the user, a view of it) gets a private copy under it, without noticing. On a device: in the calling thread's
  // stream.
  void move_out();
  // A round was given up in which kolo may write to `kept`: a peer that has been away may still do so. Its contents,
  // whatever they are by now, go to private memory; without memory for that, param.grad() becomes undefined.
  void rescue_kept() noexcept;
  // Whether `gradient` is last round's view, wherever its memory is by now.
  [[nodiscard]] bool is_view(const at::Tensor& gradient) const;
  // The next three functions: REQUIRES: param.grad() is strided (torch::kStrided).
  // The number of references to the tensor param.grad() that the parameter and this slot hold.
  [[nodiscard]] std::size_t references_to_grad() const;
  // The number of other tensors of this slot on the storage of param.grad().
  [[nodiscard]] std::size_t tensors_beside_grad() const;
  // True if param.grad() has memory that cannot be resized and is not this slot's: from_blob, or a result of another
  // optimizer.
  [[nodiscard]] bool grad_is_foreign() const;
  // Whether param.grad() is what the last round left there, whatever has been written to it since.
  [[nodiscard]] bool grad_is_result() const;
  // The same, and nothing has.
  [[nodiscard]] bool grad_is_leftover() const;
  // Whether param.grad() is what the last round left there and still has its value, as far as is known.
  [[nodiscard]] bool grad_has_result_value() const;
  // param.grad() has just been handed over; whether the program has written to it, or put another in its place, since.
  // (One that is gone, or another optimizer's result, is none of these.) LibTorch's clip_grad_norm_() writes behind
  // autograd's back: that is seen by some elements, of the host's memory where nobody else writes.
  void remember_contribution();
  [[nodiscard]] bool changed_since_contribution() const;
  // With one rank, where only copies are remembered: whether param.grad() is no longer what was contributed.
  [[nodiscard]] bool was_replaced() const;
  // A backward pass has just left param.grad() as it is.
  void remember_pass();
  // REQUIRES: a backward pass has just ended. Whether param.grad() lacks the passes before this one: it was reset or
  // zeroed since remember_pass(). Also true where autograd or the program replaced or changed it in another way.
  [[nodiscard]] bool dropped_since_pass() const;
  // param.grad() is what a round has left there, as it is now. The first: only its version has moved.
  void remember_version();
  void remember_result();

 private:
  void publish_view(std::span<std::byte> memory);
  void publish_copy(std::span<std::byte> memory);
  [[nodiscard]] bool is_kept(std::span<std::byte> memory) const;

  at::Tensor view_;  // what publish_view() made, wherever its memory is by now
  bool in_kolo_memory_ = false;
  // param.grad() as the last round left it. Weak: zero_grad() shall free it.
  WeakTensor result_ = weak({});
  std::uint32_t version_ = 0;
  // Of a result in the program's own tensor, which it may write to behind autograd's back, or through another view.
  std::optional<std::uint64_t> result_hash_;
  bool result_is_held_ = false;
  [[nodiscard]] std::uint64_t sample_of(const at::Tensor& grad) const;

  WeakTensor handed_over_ = weak({});
  const void* handed_memory_ = nullptr;
  std::optional<std::uint32_t> handed_version_;  // none: others count in it too
  std::uint64_t handed_sample_ = 0;
  bool handed_whole_ = false;  // the sample is a hash of all elements

  WeakTensor pass_grad_ = weak({});
  std::uint32_t pass_version_ = 0;
};

// Takes the tensor's one hook slot and calls what was there before first.
class GradientHook final : public torch::autograd::PostAccumulateGradHook {
 public:
  using Callback = std::function<void()>;

  static GradientHook* install(const std::shared_ptr<GradientSlot>& of, Callback callback);
  // Of all optimizers whose table has it, as far as hooks of others, laid over these, let one see.
  [[nodiscard]] static std::vector<std::shared_ptr<GradientSlot>> slots_of(const at::Tensor& parameter);
  // Puts the previous hook back. Where a hook of the program's was laid over ours meanwhile, ours stays and only passes
  // calls on.
  static void remove(const at::Tensor& parameter, const GradientHook* hook);

  GradientHook(std::unique_ptr<PostAccumulateGradHook> previous, std::weak_ptr<GradientSlot> of, Callback callback)
      : previous_(std::move(previous)), of_(std::move(of)), callback_(std::move(callback)) {}
  void operator()(const at::Tensor& tensor) override;

 private:
  std::unique_ptr<PostAccumulateGradHook> previous_;
  std::weak_ptr<GradientSlot> of_;
  Callback callback_;
};

}  // namespace kolo
