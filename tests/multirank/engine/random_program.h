#pragma once
// Random programs on ranks that are threads: in every step each rank's gradients come in another order, and now and
// then ranks change their tables, disagree, throw or leave, anywhere in the step. Every step must end alike on all
// ranks.
#include <gmock/gmock.h>

#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "multirank/engine/world.h"

namespace kolo::test {

enum class Event { none, table_changes, tables_differ, one_throws, names_differ, one_leaves };

// What all ranks know of a step in advance.
struct Step {
  Event event = Event::none;
  Rank who = 0;
  std::size_t after = 0;     // so many gradients
  bool at_once = false;      // before anything of the step, if it throws
  bool metric_last = false;  // waited for behind the round
};

inline constexpr std::size_t kTensors = 5;

inline std::vector<Step> make_script(std::mt19937& random, int ranks) {
  std::vector<Step> script(8);
  for (auto& step : script) {
    const auto dice = random() % 16;  // mostly none
    if (dice < 6) step.event = static_cast<Event>(dice);
    step.who = static_cast<Rank>(random() % static_cast<unsigned>(ranks));
    step.after = random() % (kTensors + 1);
    step.at_once = random() % 3 == 0;
    // A difference of tables leaves the metric pending.
    step.metric_last = random() % 2 == 0 && step.event != Event::tables_differ;
  }
  return script;
}

struct Left {};

class Program {
 public:
  Program(Context& context, std::uint32_t seed) : context_(context), random_(seed) {
    reducer_ = context.engine().make_reducer(table(), {});
  }

  // One letter a step: o(k), m(ismatch), f(ailed), l(ost), and a dot for leaving.
  std::string run(const std::vector<Step>& script) {
    std::string outcome;
    for (const auto& step : script) {
      ++number_;
      outcome += run_step(step);
      if (outcome.back() == 'l' || outcome.back() == '.') break;
    }
    if (!outcome.ends_with('l')) reducer_.reset();
    return outcome;
  }

 private:
  [[nodiscard]] std::vector<GradientInfo> table() const {
    std::vector<GradientInfo> rows;
    for (std::size_t i = 0; i < kTensors; ++i)
      rows.push_back({"p" + std::to_string(i), {first_size_ + static_cast<std::int64_t>(300 * i)}, {1}, DType::f32});
    return rows;
  }
  char run_step(const Step& step) {
    try {
      context_.run([&] { train(step); });
      return 'o';
    } catch (const Left&) {
      return '.';
    } catch (const MismatchError&) {
      if (step.event == Event::tables_differ) restore(step);
      return 'm';
    } catch (const PeerLostError&) {
      return 'l';
    } catch (const std::runtime_error& error) {  // of this rank, or of a peer
      EXPECT_THAT(error.what(), testing::HasSubstr("thrown on purpose"))
          << "event " << static_cast<int>(step.event) << " of rank " << step.who << " on rank " << context_.rank();
      return 'f';
    }
  }
  void restore(const Step& step) {
    if (step.who != context_.rank()) return;
    --first_size_;
    reducer_->change_table(table());
  }
  // Of a rank and a step: what is of different steps is not mixed unseen.
  [[nodiscard]] float value(Rank rank) const { return static_cast<float>(16 * number_ + rank + 1); }
  [[nodiscard]] float mean() const { return (value(0) + value(context_.size() - 1)) / 2; }
  struct Metric {
    std::vector<float> input;
    std::vector<float> output;
  };
  [[nodiscard]] std::shared_ptr<Metric> make_metric(std::size_t size) const {
    return std::make_shared<Metric>(Metric{std::vector<float>(size, value(context_.rank())), std::vector<float>(size)});
  }
  void wait(Work& work, const Metric& metric) const {
    work.wait();
    EXPECT_THAT(metric.output, testing::Each(mean() * static_cast<float>(context_.size()))) << "step " << number_;
  }
  void train(const Step& step) {
    const bool mine = step.who == context_.rank();
    if (mine && step.at_once && step.event == Event::one_throws) throw std::runtime_error("thrown on purpose");
    if (step.event == Event::table_changes || (step.event == Event::tables_differ && mine)) {
      first_size_ += step.event == Event::table_changes ? 100 : 1;
      reducer_->change_table(table());
    }
    const auto metric = make_metric(step.event == Event::names_differ && mine ? 3 : 4);
    auto request = allreduce("metric", metric->input, &metric->output);
    request.keep = metric;  // outlives an exception
    auto work = context_.engine().submit(std::move(request));
    contribute(step, mine);
    if (!step.metric_last) wait(work, *metric);
    reducer_->finish();
    check_gradients();
    if (step.metric_last) wait(work, *metric);
  }
  void contribute(const Step& step, bool mine) {
    values_.assign(2000, value(context_.rank()));
    std::vector<std::size_t> order(kTensors);
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random_);
    for (std::size_t i = 0; i <= kTensors; ++i) {
      if (mine && i == step.after && step.event == Event::one_throws) throw std::runtime_error("thrown on purpose");
      if (mine && i == step.after && step.event == Event::one_leaves) leave();
      if (i < kTensors) reducer_->contribute(order[i], values_.data());
      if (random_() % 8 == 0) std::this_thread::yield();
    }
  }
  [[noreturn]] void leave() {
    reducer_.reset();
    context_.shutdown();
    throw Left();
  }
  void check_gradients() {
    for (std::size_t i = 0; i < kTensors; ++i) {
      const auto bytes = reducer_->gradient(i);
      std::vector<float> values(bytes.size() / sizeof(float));
      std::memcpy(values.data(), bytes.data(), bytes.size());
      EXPECT_EQ(far_from(mean(), values), 0) << "tensor " << i;
    }
  }

  Context& context_;
  std::mt19937 random_;
  int number_ = 0;  // of the step
  std::int64_t first_size_ = 200;
  std::vector<float> values_;
  std::unique_ptr<GradientReducer> reducer_;
};

inline void run_seed(std::uint32_t seed) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const int ranks = 2 + static_cast<int>(random() % 5);
  const auto script = make_script(random, ranks);
  auto config = quick(static_cast<CoordinatorMode>(random() % 3));
  config.bucket_bytes = 4096;
  config.last_bucket_bytes = 1024;
  // On one host, or said to stand on several, in any order.
  const std::uint32_t most_hosts = 1 + random() % 3;
  Hosts hosts(static_cast<std::size_t>(ranks));
  for (int& host : hosts) host = static_cast<int>(random() % most_hosts);
  std::vector<std::string> outcomes(static_cast<std::size_t>(ranks));
  run_world(hosts, config, [&](Context& context) {
    Program program(context, seed * 16 + static_cast<std::uint32_t>(context.rank()));
    outcomes[static_cast<std::size_t>(context.rank())] = program.run(script);
  });
  std::string expected;
  for (const auto& outcome : outcomes) {
    if (!outcome.ends_with('.')) expected = outcome;
  }
  for (auto& outcome : outcomes) {
    if (outcome.ends_with('.')) outcome.back() = 'l';
    EXPECT_EQ(outcome, expected) << "coordinator " << static_cast<int>(config.coordinator);
  }
}

}  // namespace kolo::test
