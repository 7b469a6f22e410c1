#pragma once
// An engine for a world of one rank, with the rules of the real one made strict: memory of a finished round is
// overwritten with NaN at the first contribution of the next, and contributed data must still be what it was when the
// round ends.
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kolo/error.h"
#include "kolo/spi/engine.h"

namespace kolo::test {

struct FakeLog {
  std::vector<std::vector<std::string>> rounds;         // names contributed, by round, in order
  std::vector<std::vector<std::string>> table_changes;  // names of each new table
  std::vector<std::string> failures;
  std::size_t contributions = 0;
  int reducers = 0;
};

class FakeReducer final : public GradientReducer {
 public:
  FakeReducer(std::vector<GradientInfo> table, ReducerOptions options, std::shared_ptr<FakeLog> log)
      : table_(std::move(table)), options_(std::move(options)), log_(std::move(log)) {
    resize();
    ++log_->reducers;
  }

  using GradientReducer::contribute;
  using GradientReducer::finish;
  void contribute(std::size_t index, const void* data, Stream) override {
    begin();
    if (taken_.at(index).data != nullptr) throw UsageError("'" + table_[index].name + "' twice in a round");
    const auto* bytes = static_cast<const std::byte*>(data);
    taken_[index] = {data, {bytes, bytes + table_[index].bytes()}};
    order_.push_back(table_[index].name);
    ++log_->contributions;
  }

  void change_table(std::vector<GradientInfo> table) override {
    if (!order_.empty()) throw UsageError("the table cannot change in the middle of a round");
    table_ = std::move(table);
    resize();
    std::vector<std::string> names;
    for (const auto& info : table_) names.push_back(info.name);
    log_->table_changes.push_back(names);
  }

  void need_another_round(const std::string& /*what*/) override {}
  void set_step_fingerprint(std::uint64_t /*fingerprint*/) override {}

  void finish(Stream /*user*/, const OnReduced& reduced) override {
    begin();
    for (std::size_t i = 0; i < table_.size(); ++i) {
      contributed_[i] = taken_[i].data != nullptr;
      if (!contributed_[i]) {
        std::memset(memory_[i].data(), 0, memory_[i].size());
        continue;
      }
      if (std::memcmp(taken_[i].data, taken_[i].copy.data(), taken_[i].copy.size()) != 0) {
        throw BackendError("'" + table_[i].name + "' was changed after it had been contributed");
      }
      scale(i);
      taken_[i] = {};
      if (reduced) reduced(i);
    }
    log_->rounds.push_back(std::move(order_));
    order_.clear();
    open_ = false;
    ++round_;
  }

  std::span<std::byte> gradient(std::size_t index) override { return memory_.at(index); }
  bool contributed(std::size_t index) const override { return contributed_.at(index); }
  std::uint64_t generation() const noexcept override { return 1; }
  std::string name() const override { return "fake"; }
  std::uint64_t round() const noexcept override { return round_; }
  void progress() override {}

  void fail() {
    for (auto& taken : taken_) taken = {};
    order_.clear();
    open_ = false;
    ++round_;
  }

 private:
  struct Taken {
    const void* data = nullptr;
    std::vector<std::byte> copy;
  };

  void resize() {
    for (auto& old : memory_) std::memset(old.data(), 0xff, old.size());  // NaN
    graveyard_.push_back(std::move(memory_));                             // so that stale views read NaN, not chance
    memory_.clear();
    for (const auto& info : table_) memory_.emplace_back(info.bytes());
    taken_.assign(table_.size(), {});
    contributed_.assign(table_.size(), false);
  }
  void begin() {
    if (open_) return;
    open_ = true;
    for (auto& memory : memory_) std::memset(memory.data(), 0xff, memory.size());
  }
  void scale(std::size_t i) {
    const double factor = options_.prescale * options_.postscale;
    std::memcpy(memory_[i].data(), taken_[i].copy.data(), memory_[i].size());
    if (table_[i].dtype == DType::f32) scale_as<float>(memory_[i], factor);
    if (table_[i].dtype == DType::f64) scale_as<double>(memory_[i], factor);
  }
  template <class T>
  static void scale_as(std::vector<std::byte>& bytes, double factor) {
    auto* values = reinterpret_cast<T*>(bytes.data());
    for (std::size_t i = 0; i < bytes.size() / sizeof(T); ++i) values[i] = static_cast<T>(values[i] * factor);
  }

  std::vector<GradientInfo> table_;
  ReducerOptions options_;
  std::shared_ptr<FakeLog> log_;
  std::vector<std::vector<std::byte>> memory_;
  std::vector<std::vector<std::vector<std::byte>>> graveyard_;
  std::vector<Taken> taken_;
  std::vector<bool> contributed_;
  std::vector<std::string> order_;
  bool open_ = false;
  std::uint64_t round_ = 0;
};

class FakeEngine final : public Engine {
 public:
  EngineLifetime lifetime() const noexcept override { return EngineLifetime(alive); }
  bool is_stopped() const noexcept override { return stopped; }
  int size() const noexcept override { return 1; }
  Work submit(Request request) override { throw UsageError("the fake engine has no named requests: " + request.name); }
  Work submit_internal(Request request) override { return submit(std::move(request)); }
  bool progress() override { return false; }
  std::unique_ptr<GradientReducer> make_reducer(std::vector<GradientInfo> table, ReducerOptions options) override {
    if (!options.refused.empty()) throw UsageError(options.refused);
    auto reducer = std::make_unique<FakeReducer>(std::move(table), std::move(options), log);
    last = reducer.get();
    return reducer;
  }
  Engine& for_gradients() noexcept override { return *this; }
  RoundNotices& notices() noexcept override { return round_notices; }
  StepRecorder& step_recorder() noexcept override { return recorder; }
  std::unique_ptr<StepLauncher> make_step_launcher() override { return nullptr; }
  bool has_kernels(int /*device*/) const noexcept override { return false; }
  void normalize_images(const ImageBatch& /*batch*/, Stream /*stream*/) override {}
  void wait_for_devices() override {}
  void fail_round(const std::exception& error) noexcept override {
    log->failures.emplace_back(error.what());
    last->fail();
  }

  // Is off: no part of the binding may depend on it.
  struct NoRecorder final : StepRecorder {
    bool is_on() const noexcept override { return false; }
    void gradient_computed(std::uint64_t& /*pass*/, Stream /*stream*/) noexcept override {}
    void begin(StepPart /*part*/, Stream /*stream*/) noexcept override {}
    void end(StepPart /*part*/, Stream /*stream*/) noexcept override {}
    void end_step(Stream /*stream*/) noexcept override {}
    void abandon_step() noexcept override {}
    void describe(const std::string& /*name*/, const std::string& /*value*/) noexcept override {}
  };

  NoRecorder recorder;
  RoundNotices round_notices;
  std::shared_ptr<FakeLog> log = std::make_shared<FakeLog>();
  FakeReducer* last = nullptr;
  bool stopped = false;
  std::shared_ptr<const int> alive = std::make_shared<int>(0);
};

}  // namespace kolo::test
