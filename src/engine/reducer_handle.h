#pragma once
// What the caller holds of a reducer. When an exception takes it away, the rounds stay with the engine until the
// exception reaches Context::run, which ends the round on all ranks: unwinding has destroyed the optimizer by then.
// If the engine has ended first, the rounds are kept for good: their destructor would call the engine.
#include <exception>
#include <memory>

#include "base/keep_for_good.h"
#include "engine/gradient_rounds.h"
#include "kolo/spi/engine.h"

namespace kolo::engine {

class ReducerHandle final : public GradientReducer {
 public:
  ReducerHandle(RoundHost& host, EngineLifetime lifetime, std::unique_ptr<GradientRounds> rounds)
      : host_(host), lifetime_(std::move(lifetime)), rounds_(std::move(rounds)) {}
  ReducerHandle(const ReducerHandle&) = delete;
  ReducerHandle& operator=(const ReducerHandle&) = delete;
  ~ReducerHandle() override {
    if (lifetime_.is_over()) {
      base::keep_for_good(std::move(rounds_));
    } else if (std::uncaught_exceptions() > uncaught_) {
      host_.orphan(std::move(rounds_));
    }
  }

  void contribute(std::size_t index, const void* data, Stream ready) override {
    rounds_->contribute(index, data, ready);
  }
  void contribute_in_place(std::size_t index, void* data) override { rounds_->contribute_in_place(index, data); }
  [[nodiscard]] std::shared_ptr<GradientMemory> memory() const override { return rounds_->memory(); }
  void change_table(std::vector<GradientInfo> table) override { rounds_->change_table(std::move(table)); }
  void need_another_round(const std::string& what) override { rounds_->need_another_round(what); }
  void set_step_fingerprint(std::uint64_t fingerprint) override { rounds_->set_step_fingerprint(fingerprint); }
  using GradientReducer::finish;
  void finish(Stream user, const OnReduced& reduced) override { rounds_->finish(user, reduced); }
  [[nodiscard]] std::span<std::byte> gradient(std::size_t index) override { return rounds_->gradient(index); }
  [[nodiscard]] bool contributed(std::size_t index) const override { return rounds_->contributed(index); }
  [[nodiscard]] std::uint64_t generation() const noexcept override { return rounds_->generation(); }
  [[nodiscard]] std::string name() const override { return rounds_->name(); }
  [[nodiscard]] std::uint64_t round() const noexcept override { return rounds_->round(); }
  void progress() override { rounds_->progress(); }

 private:
  RoundHost& host_;
  EngineLifetime lifetime_;
  std::unique_ptr<GradientRounds> rounds_;
  int uncaught_ = std::uncaught_exceptions();
};

}  // namespace kolo::engine
