#pragma once
// Between autograd's hooks and a GradientReducer. One round:
//
//   hook, hook, ...            each hands its gradient to the reducer, which packs it and moves full buckets on
//   close_round()              gradients that are defined and no hook brought (accumulated under no_sync, or made by
//                              hand) follow; then the reducer waits, while weights may be updated whose gradients are
//                              there; then param.grad() becomes a view of the result, or gets a copy of it where the
//                              program holds that tensor too (held_gradients.cpp)
//
// A parameter table that has changed is announced before the first contribution of a round, by change_table().
// With shared gradients, autograd makes the larger ones in memory of the reducer (GradientAllocator); what lies there,
// and is nobody else's too, is contributed in place and needs neither a copy nor a view.
//
// On a device: a hook contributes behind the stream that is current in it, which autograd has made that of the
// gradient; results are ready in the stream that is current where the round is closed, and are moved out in that
// stream.
//
// The reducer's memory holds last round's results until the first contribution of the next one. Whoever still looks at
// them then gets a private copy just before (GradientSlot::move_out).
#include <c10/core/Stream.h>

#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kolo/spi/engine.h"
#include "kolo/spi/gradient_reducer.h"
#include "kolo/spi/step_recorder.h"
#include "torch/gradient_slot.h"
#include "torch/parameter_table.h"

namespace kolo {

class FusedOptimizer;

class GradientBinding : public std::enable_shared_from_this<GradientBinding> {
 public:
  GradientBinding(Engine& engine, std::shared_ptr<torch::optim::Optimizer> optimizer, const NamedTensors& parameters,
                  const DistributedOptions& options);

  void attach();  // after construction: hooks hold this object weakly
  void detach();

  enum class Before { look, step };  // at gradients, by the user; of the optimizer, at once
  void close_round(Before before);
  // And no hook has fired since, no failure has ended another round, and its gradients are not all gone.
  [[nodiscard]] bool closed() const;
  void refuse_unreduced_newcomers();           // REQUIRES: closed()
  void reopen() noexcept { closed_ = false; }  // another round is to come, also where no hook fires for it
  [[nodiscard]] std::uint64_t rounds() const noexcept { return reducer_ != nullptr ? reducer_->round() : 0; }
  // Marks a part of the step for the step log, as long as the result lives.
  [[nodiscard]] RecordedPart record(StepPart part) { return {recorder_, part, stream_here()}; }
  void record_update(std::optional<RecordedPart>& part) { part.emplace(recorder_, StepPart::update, stream_here()); }
  enum class Outcome { updated, left_out };
  void stepped(Outcome outcome);  // the optimizer has used the gradients, or is not to

  [[nodiscard]] std::string name() const { return reducer_->name(); }
  // The name of a tensor that is in no group of the optimizer is free.
  void add_names(const NamedTensors& parameters) { names_.add(parameters, optimizer_.get()); }
  void enter_no_sync() noexcept { ++no_sync_; }
  void leave_no_sync() noexcept { --no_sync_; }

 private:
  using Slots = std::vector<std::shared_ptr<GradientSlot>>;

  [[nodiscard]] Stream stream_here() const;
  void reduce(Before before);
  void give_launcher();
  void take_launcher_back() noexcept;
  void renew_launcher();
  void on_gradient(GradientSlot& slot);
  void begin_round();
  enum class End { reduced, given_up };
  void end_round(End end) noexcept;
  void follow_failure() noexcept;
  void contribute(GradientSlot& slot);
  [[nodiscard]] bool results_are_contributions() const;
  [[nodiscard]] bool must_be_copied(const at::Tensor& gradient);
  void refuse_late_changes();
  void refuse_gradients_of_this_rank();
  [[nodiscard]] static bool was_reduced(const at::Tensor& parameter);
  void sweep(const Slots& slots);
  void finish(const GradientReducer::OnReduced& reduced = {});
  [[nodiscard]] bool may_update_early() const;
  void update_early(std::size_t index) noexcept;
  void offer_memory();
  void teach_allocator(const GradientSlot& slot) const;
  static void stop_offering(GradientSlot& slot);
  static void withdraw_offers(const GradientSlot& newcomer);
  [[nodiscard]] static bool is_of_this_only(const GradientSlot& slot);
  [[nodiscard]] static bool is_of_another(const GradientSlot& slot, const at::Tensor& gradient);
  [[nodiscard]] static bool is_left_by_another(const GradientSlot& slot);
  static void remember_leftover(const GradientSlot& slot);
  void find_held_gradients();
  void refuse_overlaps();
  [[nodiscard]] static std::pair<const std::byte*, const std::byte*> extent_of(const at::Tensor& gradient);
  void publish(const Slots& slots);
  bool publish(GradientSlot& slot);
  void move_out() const;
  void check_devices(const std::vector<NamedParameter>& parameters) const;
  [[nodiscard]] std::vector<GradientInfo> table() const;
  [[nodiscard]] GradientSlot* slot_of(const at::Tensor& parameter);  // null: not in the table
  [[nodiscard]] bool table_is_current();
  Slots take_table(const std::vector<NamedParameter>& parameters);
  Slots change_table();
  void release_departed();
  [[nodiscard]] std::optional<std::string> first_that_joined();
  void reduce_newcomers();
  [[nodiscard]] bool must_compare_weights(std::uint64_t rounds) const;
  void compare_weights();
  [[noreturn]] void spoil(const std::string& text);

  // Throws UsageError for none.
  void require_some(const std::vector<NamedParameter>& trainable) const;
  // Throws UsageError where the Context has gone before this.
  void require_context() const;

  Engine& engine_;
  StepRecorder& recorder_;
  const EngineLifetime lifetime_;
  std::shared_ptr<torch::optim::Optimizer> optimizer_;
  FusedOptimizer* const fused_;  // the same, where it is one of kolo's
  const DistributedOptions options_;
  ParameterNames names_;
  Slots slots_;     // in the reducer's order
  Slots departed_;  // left the table; their hooks are taken off when none is running
  std::unordered_map<const at::TensorImpl*, GradientSlot*> by_tensor_;  // slots_, or empty
  std::unique_ptr<GradientReducer> reducer_;
  std::weak_ptr<StepLauncher> given_;  // to the optimizer
  std::optional<c10::Device> device_;  // of the parameters that are not in the host's memory
  std::optional<c10::Stream> reader_;  // there, of whoever closed the last round
  std::mutex mutex_;                   // hooks run on whichever thread calls backward()
  std::uint64_t round_ = 0;
  std::uint64_t offered_ = 0;         // the generation whose memory gradients are made in
  std::uint64_t compared_ = 0;        // the generation in whose first round all ranks had the same weights
  std::uint64_t compared_round_ = 0;  // rounds that had ended by then
  bool failed_ = false;               // a failed round may have updated weights; not compared yet
  std::exception_ptr update_error_;   // of an early update in this round
  bool table_moved_ = false;          // the optimizer's parameters have changed in this round
  bool some_are_copies_ = false;      // some contributions of this round are not param.grad()
  bool some_are_held_ = false;        // some slots are `held`
  bool began_ = false;                // a gradient was contributed in this round
  // With one rank: the first and the end address of each contribution of this round.
  std::map<const std::byte*, const std::byte*> contributed_;
  bool closed_ = false;
  std::string spoiled_;  // why this round cannot be closed any more
  int no_sync_ = 0;
};

}  // namespace kolo
