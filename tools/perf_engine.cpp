#include "perf_engine.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>

#include "kolo/spi/communicator.h"
#include "kolo/spi/engine.h"
#include "perf_times.h"

namespace kolo::tools {
namespace {

using Clock = std::chrono::steady_clock;

double microseconds(Clock::duration duration) { return std::chrono::duration<double, std::micro>(duration).count(); }

// 161 gradients of this rank: value (rank + 1) * step everywhere, exact in fp32 for any number of ranks in reach.
class Gradients {
 public:
  explicit Gradients(Rank rank) : rank_(rank), counts_(resnet50_counts()) {
    for (const auto count : counts_) {
      inputs_.emplace_back(static_cast<std::size_t>(count));
      outputs_.emplace_back(static_cast<std::size_t>(count));
      total_ += static_cast<std::size_t>(count);
    }
  }
  void write(int step) {
    value_ = static_cast<float>((rank_ + 1) * (step % 16 + 1));
    for (auto& input : inputs_) std::fill(input.begin(), input.end(), value_);
  }
  [[nodiscard]] float expected(int ranks) const {
    return value_ / static_cast<float>(rank_ + 1) * static_cast<float>(ranks * (ranks + 1)) / 2;
  }
  [[nodiscard]] static std::size_t wrong(const std::byte* data, std::size_t count, float expected) {
    const auto* values = reinterpret_cast<const float*>(data);
    return count - static_cast<std::size_t>(std::count(values, values + count, expected));
  }
  [[nodiscard]] std::size_t total() const { return total_; }

  Rank rank_;
  std::vector<std::int64_t> counts_;
  std::vector<std::vector<float>> inputs_;
  std::vector<std::vector<float>> outputs_;

 private:
  std::size_t total_ = 0;
  float value_ = 0;
};

Request request(const std::string& name, const std::vector<float>& input, float* output) {
  Request result;
  result.name = name;
  result.sizes = {static_cast<std::int64_t>(input.size())};
  result.input = input.data();
  result.output = output;
  return result;
}

// One way of reducing all gradients: run() is timed; wrong() looks at what came out.
struct Way {
  std::string name;
  std::size_t bytes = 0;
  std::function<void()> run;
  std::function<std::size_t()> wrong;
};

Way flat_way(Context& context, Gradients& gradients, RegisteredBuffer& buffer) {
  const auto run = [&] {
    std::size_t offset = 0;
    for (const auto& input : gradients.inputs_) {
      std::memcpy(buffer.data().data() + offset, input.data(), input.size() * sizeof(float));
      offset += input.size() * sizeof(float);
    }
    AllreduceOptions options;
    options.data = buffer.data().data();
    options.count = gradients.total();
    options.registered = &buffer;
    context.communicator().allreduce(options, context.config().timeout);
  };
  const auto wrong = [&] {
    return Gradients::wrong(buffer.data().data(), gradients.total(), gradients.expected(context.size()));
  };
  return {"flat", gradients.total() * sizeof(float), run, wrong};
}

Way named_way(Context& context, Gradients& gradients, bool copies) {
  const auto works = std::make_shared<std::vector<Work>>();  // shared by run and wrong
  const std::string prefix = copies ? "copied/" : "viewed/";
  const auto run = [&context, &gradients, works, prefix, copies] {
    works->clear();
    for (std::size_t i = 0; i < gradients.inputs_.size(); ++i) {
      works->push_back(context.engine().submit(
          request(prefix + std::to_string(i), gradients.inputs_[i], copies ? gradients.outputs_[i].data() : nullptr)));
    }
    for (auto& work : *works) work.wait();
  };
  const auto wrong = [&context, &gradients, works, copies] {
    std::size_t count = 0;
    for (std::size_t i = 0; i < works->size(); ++i) {
      const auto* data =
          copies ? reinterpret_cast<const std::byte*>(gradients.outputs_[i].data()) : (*works)[i].result().data();
      count += Gradients::wrong(data, gradients.inputs_[i].size(), gradients.expected(context.size()));
    }
    return count;
  };
  return {copies ? "named copies" : "named views", gradients.total() * sizeof(float), run, wrong};
}

Way rounds_way(Context& context, Gradients& gradients, GradientReducer& reducer) {
  const auto run = [&] {
    for (std::size_t i = gradients.inputs_.size(); i > 0; --i)
      reducer.contribute(i - 1, gradients.inputs_[i - 1].data());
    reducer.finish();
  };
  const auto wrong = [&] {
    std::size_t count = 0;
    for (std::size_t i = 0; i < gradients.inputs_.size(); ++i) {
      count +=
          Gradients::wrong(reducer.gradient(i).data(), gradients.inputs_[i].size(), gradients.expected(context.size()));
    }
    return count;
  };
  return {"rounds", gradients.total() * sizeof(float), run, wrong};
}

EngineResult summarize(const Way& way, std::vector<double> times, std::size_t wrong, std::uint64_t messages) {
  EngineResult result;
  result.way = way.name;
  result.bytes = way.bytes;
  result.control_messages = static_cast<double>(messages) / static_cast<double>(times.size());
  std::sort(times.begin(), times.end());
  result.p50_us = percentile(times, 50);
  result.p99_us = percentile(times, 99);
  result.wrong = wrong;
  return result;
}

// One allreduce of 1 KiB by name, over and over: the latency of the whole path.
EngineResult measure_small(Context& context, int iterations) {
  constexpr std::size_t kCount = 256;
  const float expected = static_cast<float>(context.size() * (context.size() + 1)) / 2;
  std::vector<float> input(kCount);
  std::vector<float> output(kCount);
  std::vector<double> times;
  Way way{"small", kCount * sizeof(float), {}, {}};
  std::size_t wrong = 0;
  std::uint64_t messages = 0;
  for (int i = -100; i < iterations; ++i) {
    const auto step = static_cast<float>((i + 100) % 16 + 1);
    std::fill(input.begin(), input.end(), static_cast<float>(context.rank() + 1) * step);
    if (i == 0) messages = context.counters().at("control_messages");
    context.communicator().barrier(context.config().timeout);
    const auto start = Clock::now();
    context.engine().submit(request("small", input, output.data())).wait();
    if (i >= 0) times.push_back(microseconds(Clock::now() - start));
    wrong += Gradients::wrong(reinterpret_cast<const std::byte*>(output.data()), kCount, expected * step);
  }
  messages = context.counters().at("control_messages") - messages;
  return summarize(way, std::move(times), wrong, messages);
}

}  // namespace

std::vector<std::int64_t> resnet50_counts() {
  std::vector<std::int64_t> counts{64 * 3 * 49, 64, 64};
  const auto conv = [&](std::int64_t in, std::int64_t out, std::int64_t kernel) {
    counts.insert(counts.end(), {in * out * kernel * kernel, out, out});  // weight, then the norm's scale and shift
  };
  std::int64_t in = 64;
  std::int64_t planes = 64;
  for (const int blocks : {3, 4, 6, 3}) {
    for (int block = 0; block < blocks; ++block) {
      conv(in, planes, 1);
      conv(planes, planes, 3);
      conv(planes, planes * 4, 1);
      if (block == 0) conv(in, planes * 4, 1);
      in = planes * 4;
    }
    planes *= 2;
  }
  counts.insert(counts.end(), {2048 * 1000, 1000});
  return counts;
}

std::vector<EngineResult> measure_engine(Context& context, int iterations) {
  Gradients gradients(context.rank());
  const std::size_t bytes = gradients.total() * sizeof(float);
  const auto buffers = context.communicator().allocate(std::span(&bytes, 1), context.config().timeout);
  std::vector<GradientInfo> table;
  for (std::size_t i = 0; i < gradients.counts_.size(); ++i) {
    table.push_back({"p" + std::to_string(i), {gradients.counts_[i]}, {1}, DType::f32});
  }
  ReducerOptions options;
  options.op = ReduceOp::sum;
  const auto reducer = context.engine().make_reducer(table, options);
  const std::vector<Way> ways{flat_way(context, gradients, *buffers.front()), named_way(context, gradients, false),
                              named_way(context, gradients, true), rounds_way(context, gradients, *reducer)};
  std::vector<std::vector<double>> times(ways.size());
  std::vector<std::size_t> wrong(ways.size(), 0);
  std::vector<std::uint64_t> messages(ways.size(), 0);
  constexpr int kWarmUp = 3;
  for (int i = -kWarmUp; i < iterations; ++i) {
    for (std::size_t w = 0; w < ways.size(); ++w) {
      gradients.write(i + kWarmUp);
      context.communicator().barrier(context.config().timeout);
      const auto before = context.counters().at("control_messages");
      const auto start = Clock::now();
      ways[w].run();
      const auto end = Clock::now();
      wrong[w] += ways[w].wrong();
      if (i < 0) continue;
      times[w].push_back(microseconds(end - start));
      messages[w] += context.counters().at("control_messages") - before;
    }
  }
  std::vector<EngineResult> results;
  for (std::size_t w = 0; w < ways.size(); ++w) results.push_back(summarize(ways[w], times[w], wrong[w], messages[w]));
  results.push_back(measure_small(context, 50 * iterations));
  return results;
}

double measure_idle() {
  using Seconds = std::chrono::duration<double>;
  const auto processor_time = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    const auto of = [](const timeval& time) {
      return Seconds(std::chrono::seconds(time.tv_sec) + std::chrono::microseconds(time.tv_usec));
    };
    return of(usage.ru_utime) + of(usage.ru_stime);
  };
  std::this_thread::sleep_for(Seconds(0.3));  // until the coordinator has parked
  const auto start = Clock::now();
  const auto before = processor_time();
  std::this_thread::sleep_for(Seconds(3));
  return (processor_time() - before) / Seconds(Clock::now() - start);
}

}  // namespace kolo::tools
