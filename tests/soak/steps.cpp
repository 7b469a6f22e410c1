// Training steps without a model, for as long as wanted, and what they cost the process:
//
//   mpirun -np 2 soak.steps OUT STEPS SECONDS SAMPLE_SECONDS       ends after STEPS (0: no limit) or SECONDS (0: none)
//
// A step is what an optimizer does: a metric by name, gradients in another order every time, the results checked. Now
// and then what leaks if anything does: a table that changes, ranks that disagree, training code that throws, another
// reducer, another Context. Every rank writes a line of JSON a sample to OUT/rank-N.jsonl; steps.py judges them.
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "kolo/kolo.h"
#include "kolo/spi/engine.h"

namespace {

using namespace kolo;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kTensors = 24;
constexpr std::int64_t kElements = 4096;  // of the largest
constexpr std::uint64_t kTableEvery = 500;
constexpr std::uint64_t kDisagreeEvery = 701;
constexpr std::uint64_t kThrowEvery = 907;
constexpr std::uint64_t kReducerEvery = 10007;
constexpr std::uint64_t kContextEvery = 5003;

struct Limits {
  std::string folder;
  std::uint64_t steps = 0;
  double seconds = 0;
  double sample_seconds = 1;
};

double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

std::size_t entries_of(const char* folder) {
  return static_cast<std::size_t>(
      std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator()));
}

std::size_t lines_of(const char* path) {
  std::ifstream file(path);
  return static_cast<std::size_t>(
      std::count(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>(), '\n'));
}

// What this process holds and has done, a line a sample.
class Sampler {
 public:
  Sampler(const std::string& path, double interval) : out_(path), interval_(interval) { times_.reserve(kMostTimes); }

  void step_took(double seconds) {
    if (times_.size() < kMostTimes) times_.push_back(seconds);
    ++steps_;
    if (since(last_) >= interval_) sample();
  }
  [[nodiscard]] std::uint64_t steps() const { return steps_; }

 private:
  static constexpr std::size_t kMostTimes = 1 << 16;  // reserved once: the sampler itself must not grow

  void sample() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    std::size_t pages = 0;
    std::size_t resident = 0;
    std::ifstream("/proc/self/statm") >> pages >> resident;
    const auto middle = times_.begin() + static_cast<std::ptrdiff_t>(times_.size() / 2);
    std::nth_element(times_.begin(), middle, times_.end());
    const auto faults = static_cast<std::uint64_t>(usage.ru_minflt + usage.ru_majflt);
    const auto heap = mallinfo2();
    out_ << "{\"seconds\": " << since(start_) << ", \"steps\": " << steps_
         << ", \"rss_kib\": " << resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)) / 1024
         << ", \"heap_kib\": " << (heap.uordblks + heap.hblkhd) / 1024 << ", \"files\": " << entries_of("/proc/self/fd")
         << ", \"mappings\": " << lines_of("/proc/self/maps")
         << ", \"faults_per_step\": " << static_cast<double>(faults - faults_) / static_cast<double>(steps_ - sampled_)
         << ", \"step_us\": " << *middle * 1e6 << "}" << std::endl;  // flushed: a killed run has its samples
    faults_ = faults;
    sampled_ = steps_;
    times_.clear();
    last_ = Clock::now();
  }

  std::ofstream out_;
  double interval_;
  std::vector<double> times_;
  std::uint64_t steps_ = 0;
  std::uint64_t sampled_ = 0;  // steps at the last sample
  std::uint64_t faults_ = 0;
  Clock::time_point start_ = Clock::now();
  Clock::time_point last_ = start_;
};

void require(bool condition, const std::string& what) {
  if (!condition) throw std::logic_error(what);
}

class Training {
 public:
  Training(const Config& config, const Limits& limits)
      : config_(config),
        limits_(limits),
        context_(Context::create(config)),
        random_(static_cast<std::uint32_t>(context_->rank())),
        sampler_(limits.folder + "/rank-" + std::to_string(context_->rank()) + ".jsonl", limits.sample_seconds),
        values_(static_cast<std::size_t>(kElements), 0.0F),
        order_(kTensors) {
    std::iota(order_.begin(), order_.end(), 0);
    make_reducer();
  }

  void run() {
    const auto start = Clock::now();
    for (std::uint64_t step = 1; !stop_; ++step) {
      const auto began = Clock::now();
      const bool over =
          (limits_.steps > 0 && step >= limits_.steps) || (limits_.seconds > 0 && since(start) >= limits_.seconds);
      if (step % kReducerEvery == 0) make_reducer();
      if (step % kContextEvery == 0) use_another_context();
      if (step % kTableEvery == 0) grow(1);
      if (step % kDisagreeEvery == 0) {
        disagree();
      } else if (step % kThrowEvery == 0) {
        throw_on_one_rank();
      } else {
        train(over);
      }
      sampler_.step_took(since(began));
    }
    if (context_->rank() == 0) std::printf("%llu steps\n", static_cast<unsigned long long>(sampler_.steps()));
  }

 private:
  [[nodiscard]] std::vector<GradientInfo> table() const {
    std::vector<GradientInfo> rows;
    for (std::size_t i = 0; i < kTensors; ++i) {
      const auto count = std::max<std::int64_t>(1, kElements >> (i % 8)) - wobble_;
      rows.push_back({"layer" + std::to_string(i), {std::max<std::int64_t>(1, count)}, {1}, DType::f32});
    }
    return rows;
  }
  void make_reducer() {
    reducer_.reset();
    reducer_ = context_->engine().make_reducer(table(), {});
  }
  // Tables of two sizes in turn: another plan each time, and never more memory.
  void grow(std::int64_t by) {
    wobble_ = (wobble_ + by) % 2;
    reducer_->change_table(table());
  }
  void train(bool over) {
    metric_ = {static_cast<float>(context_->rank() + 1), over ? 1.0F : 0.0F};
    Request request;
    request.name = "metric";
    request.sizes = {2};
    request.input = metric_.data();
    request.output = sums_.data();
    auto work = context_->engine().submit(std::move(request));
    contribute();
    work.wait();
    reducer_->finish();
    check();
    stop_ = sums_[1] > 0;
  }
  void contribute() {
    std::shuffle(order_.begin(), order_.end(), random_);
    std::fill(values_.begin(), values_.end(), static_cast<float>(context_->rank() + 1));
    for (const auto index : order_) reducer_->contribute(index, values_.data());
  }
  void check() {
    const auto size = static_cast<float>(context_->size());
    require(sums_[0] == size * (size + 1) / 2, "a wrong sum");
    for (std::size_t i = 0; i < kTensors; ++i) {
      const auto bytes = reducer_->gradient(i);
      float last = 0;
      std::memcpy(&last, bytes.data() + bytes.size() - sizeof(last), sizeof(last));
      require(std::abs(last - (size + 1) / 2) < 1e-5F, "a wrong mean");
    }
  }
  template <class Error, class Body>
  void expect(Body body) {
    try {
      context_->run(body);
    } catch (const Error&) {
      return;
    }
    throw std::logic_error("an error that every rank should have had was not thrown");
  }
  void disagree() {
    const bool mine = context_->rank() == 1;
    if (mine) grow(1);
    expect<MismatchError>([&] {
      contribute();
      reducer_->finish();
    });
    if (mine) grow(1);
  }
  void throw_on_one_rank() {
    const auto body = [&] {
      contribute();
      if (context_->rank() == 1) throw std::runtime_error("on purpose");
      reducer_->finish();
    };
    if (context_->rank() == 1) {
      expect<std::runtime_error>(body);
    } else {
      expect<PeerFailedError>(body);
    }
  }
  void use_another_context() const {
    auto other = Context::create(config_);
    Request barrier;
    barrier.kind = RequestKind::barrier;
    barrier.name = "hello";
    other->engine().submit(std::move(barrier)).wait();
  }

  Config config_;
  Limits limits_;
  std::unique_ptr<Context> context_;
  std::mt19937 random_;
  Sampler sampler_;
  std::unique_ptr<GradientReducer> reducer_;
  std::vector<float> values_;
  std::vector<std::size_t> order_;
  std::vector<float> metric_;
  std::vector<float> sums_ = std::vector<float>(2);
  std::int64_t wobble_ = 0;
  bool stop_ = false;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "%s OUT STEPS SECONDS SAMPLE_SECONDS\n", argv[0]);
    return 2;
  }
  try {
    Config config = Config::from_environment();
    config.log_sink = [](LogLevel, std::string_view) {};
    Training(config, {argv[1], std::strtoull(argv[2], nullptr, 10), std::strtod(argv[3], nullptr),
                      std::strtod(argv[4], nullptr)})
        .run();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "soak.steps: %s\n", error.what());
    return 1;
  }
}
