// One rank of a run of the campaign: steps of gradients and named operations, each verified, until something happens to
// somebody. Says what it sees as JSON lines; campaign.py does the harm from outside, and judges.
//
//   campaign_rank FAULT VICTIM STEP WHERE      FAULT: what the victim does to itself in that step
//
//   throw   an exception in training code         silent  never submits a named operation
//   leave   ends its Context and goes             other   submits something else under the same name
//   exit    ends without a word                   slow    is ten times as slow as it was
//   stay    nothing: all work until they notice   none    nothing, and nobody is to notice: a few steps more
//   WHERE in the step: before anything, inside (some gradients are on their way), after (all are)
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <stdexcept>
#include <thread>

#include "kolo/kolo.h"
#include "kolo/spi/communicator.h"
#include "kolo/spi/engine.h"

namespace kolo::test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr unsigned kEndOfAll = 100;   // seconds after which a rank that hangs is ended
constexpr int kStepsAfterwards = 20;  // when the fault is not meant to be noticed, or the others go on
constexpr int kStepsUntilNoticed = 1'000'000;
constexpr int kAttempts = 5;  // to begin anew
constexpr std::int64_t kCounts[] = {1000, 12'000, 3, 20'000, 500};

struct Orders {
  std::string fault;
  Rank victim = 0;
  int step = 0;
  std::string where;
};

class WrongResult : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char character : text) {
    if (character == '"' || character == '\\') result += '\\';
    result += static_cast<unsigned char>(character) < ' ' ? ' ' : character;
  }
  return result + '"';
}

std::string listed(const std::vector<Rank>& ranks) {
  std::string text;
  for (const Rank rank : ranks) text += (text.empty() ? "" : ", ") + std::to_string(rank);
  return '[' + text + ']';
}

// One line, in one call. Ranks keep their first numbers; `fields` is JSON or empty.
class Teller {
 public:
  explicit Teller(Rank rank) : rank_(rank) {}
  void operator()(const std::string& event, const std::string& fields = {}) const {
    const auto now = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
    std::printf("{\"rank\": %d, \"event\": \"%s\", \"time\": %.6f%s%s}\n", rank_, event.c_str(), now,
                fields.empty() ? "" : ", ", fields.c_str());
    std::fflush(stdout);
  }

 private:
  Rank rank_;
};

// One world's work: every sum is known exactly.
class Work {
 public:
  explicit Work(Context& context) : context_(context), reducer_(context.engine().make_reducer(table(), sums())) {
    for (const std::int64_t count : kCounts) gradients_.emplace_back(static_cast<std::size_t>(count));
  }

  // `harm` is called before, inside and after the gradients of the step, with the place's name.
  void step(int number, const std::function<void(const char*)>& harm) {
    harm("before");
    for (std::size_t i = 0; i < gradients_.size(); ++i) {
      fill(i, number);
      reducer_->contribute(i, gradients_[i].data());
      if (i == 2) harm("inside");
    }
    harm("after");
    reducer_->finish();
    for (std::size_t i = 0; i < gradients_.size(); ++i) verify(i, number);
  }

  void named(int number, std::int64_t length = 4) {
    const std::vector<std::int64_t> input(static_cast<std::size_t>(length), context_.rank() + number);
    std::vector<std::int64_t> output(input.size());
    Request request;
    request.name = "metric " + std::to_string(number % 3);
    request.dtype = DType::i64;
    request.sizes = {length};
    request.input = input.data();
    request.output = output.data();
    context_.engine().submit(request).wait();
    const std::int64_t size = context_.size();
    for (const std::int64_t value : output) {
      if (value != size * (size - 1) / 2 + size * number) throw WrongResult(request.name);
    }
  }

 private:
  static std::vector<GradientInfo> table() {
    std::vector<GradientInfo> rows;
    for (const std::int64_t count : kCounts) {
      rows.push_back({"gradient " + std::to_string(rows.size()), {count}, {1}, DType::f32});
    }
    return rows;
  }
  static ReducerOptions sums() {
    ReducerOptions options;
    options.op = ReduceOp::sum;
    options.bucket_bytes = 32 * 1024;  // several buckets
    return options;
  }
  // Small whole numbers: sums are exact in any order.
  static float value(Rank rank, std::size_t tensor, std::size_t element, int step) {
    return static_cast<float>((rank + 1) * (1 + static_cast<int>((element + tensor) % 7)) + step % 11);
  }
  void fill(std::size_t tensor, int step) {
    for (std::size_t k = 0; k < gradients_[tensor].size(); ++k) {
      gradients_[tensor][k] = value(context_.rank(), tensor, k, step);
    }
  }
  void verify(std::size_t tensor, int step) {
    const auto* sums = reinterpret_cast<const float*>(reducer_->gradient(tensor).data());
    for (std::size_t k = 0; k < gradients_[tensor].size(); ++k) {
      float expected = 0;
      for (Rank rank = 0; rank < context_.size(); ++rank) expected += value(rank, tensor, k, step);
      if (sums[k] != expected) throw WrongResult("gradient " + std::to_string(tensor));
    }
  }

  Context& context_;
  std::unique_ptr<GradientReducer> reducer_;
  std::vector<std::vector<float>> gradients_;
};

class Run {
 public:
  Run(Orders orders, std::unique_ptr<Context> context)
      : orders_(std::move(orders)),
        context_(std::move(context)),
        rank_(context_->rank()),
        say_(rank_),
        work_(std::make_unique<Work>(*context_)) {}

  int operator()() {
    context_->communicator().barrier(30s);  // harm done to one whose Context is not finished is another matter
    say_("ready", "\"pid\": " + std::to_string(getpid()));
    const bool noticed = orders_.fault != "slow" && orders_.fault != "none";
    const int last = noticed ? kStepsUntilNoticed : orders_.step + kStepsAfterwards;
    for (int number = 0; number < last && !over_; ++number) one_step(number);
    work_.reset();
    context_.reset();
    say_("ok");
    return 0;
  }

 private:
  void one_step(int number) {
    if (number == orders_.step) say_("there", "\"step\": " + std::to_string(number));
    const auto begin = Clock::now();
    try {
      context_->run([&] {
        work_->step(number, [&](const char* where) { harm(number, where); });
        named(number);
      });
    } catch (const PeerLostError& error) {
      report("PeerLostError", {error.rank()}, error, begin);
      go_on_without(error);
    } catch (const PeerFailedError& error) {
      report("PeerFailedError", error.ranks(), error, begin);
      same_world_goes_on(number);
    } catch (const TimeoutError& error) {
      report("TimeoutError", error.missing(), error, begin);
      same_world_goes_on(number);
    } catch (const MismatchError& error) {
      report("MismatchError", {}, error, begin);
      same_world_goes_on(number);
    } catch (const WrongResult&) {
      throw;
    } catch (const Error& error) {
      report("Error", {}, error, begin);
      throw;
    } catch (const std::runtime_error& error) {  // our own
      report("own", {rank_}, error, begin);
      same_world_goes_on(number);
    }
  }

  void named(int number) {
    const bool now = number == orders_.step && rank_ == orders_.victim;
    if (now && orders_.fault == "silent") {
      std::this_thread::sleep_for(context_->config().timeout / 2);  // the others are withdrawing it
      report("own", {rank_}, std::runtime_error("silent"), Clock::now());
      same_world_goes_on(number);
      return;
    }
    work_->named(number, now && orders_.fault == "other" ? 5 : 4);
  }

  // What the victim does to itself.
  void harm(int number, const std::string& where) {
    if (rank_ != orders_.victim || where != orders_.where) return;
    if (orders_.fault == "slow") be_slow(number);
    if (number != orders_.step) return;
    if (orders_.fault == "throw") throw std::runtime_error("out of luck");
    if (orders_.fault == "exit") {
      say_("harm");
      _exit(3);
    }
    if (orders_.fault == "leave") {
      say_("harm");
      work_.reset();
      context_.reset();
      say_("ok");
      std::exit(0);
    }
  }

  void be_slow(int number) {
    const auto now = Clock::now();
    if (number == 0) started_ = now;
    if (number == orders_.step) pause_ = number == 0 ? Clock::duration(10ms) : 9 * (now - started_) / number;
    if (number >= orders_.step) std::this_thread::sleep_for(std::min<Clock::duration>(pause_, 200ms));
  }

  void report(const std::string& type, const std::vector<Rank>& ranks, const std::exception& error,
              Clock::time_point begin) {
    const auto waited = std::chrono::duration<double>(Clock::now() - begin).count();
    say_("error", "\"type\": " + quoted(type) + ", \"ranks\": " + listed(ranks) +
                      ", \"waited\": " + std::to_string(waited) + ", \"text\": " + quoted(error.what()));
  }

  void same_world_goes_on(int number) {
    for (int next = number + 1; next <= number + kStepsAfterwards; ++next) {
      work_->step(next, [](const char*) {});
      work_->named(next);
    }
    say_("went on");
    over_ = true;
  }

  void go_on_without(const PeerLostError& error) {
    over_ = true;
    work_.reset();
    if (error.rank() == rank_) {
      say_("given up");
      return;
    }
    // Whoever is lost while the others begin anew is told of by an error, and they begin again.
    for (int attempt = 1; !begin_anew(attempt);) ++attempt;
  }

  // True when there is nothing more to try.
  bool begin_anew(int attempt) {
    std::vector<Rank> left;
    try {
      left = context_->survivors();
    } catch (const PeerLostError& verdict) {
      say_("cut off", "\"text\": " + quoted(verdict.what()));
      return true;
    }
    say_("survivors", "\"ranks\": " + listed(left));
    if (left.size() == 1 || orders_.fault == "leave") return true;  // nobody is lost who could be done without
    try {
      context_ = Context::create_over_survivors(*context_);
    } catch (const PeerLostError& error) {
      if (attempt == kAttempts) throw;
      say_("again", "\"text\": " + quoted(error.what()));
      return false;
    }
    work_ = std::make_unique<Work>(*context_);
    for (int number = 0; number < kStepsAfterwards; ++number) {
      work_->step(number, [](const char*) {});
      work_->named(number);
    }
    say_("anew", "\"size\": " + std::to_string(context_->size()));
    return true;
  }

  Orders orders_;
  std::unique_ptr<Context> context_;
  Rank rank_;
  Teller say_;
  std::unique_ptr<Work> work_;
  bool over_ = false;
  Clock::time_point started_{};
  Clock::duration pause_{};
};

int run(const Orders& orders) {
  alarm(kEndOfAll);
  Teller say(-1);
  try {
    auto context = Context::create();
    say = Teller(context->rank());
    return Run(orders, std::move(context))();
  } catch (const WrongResult& wrong) {
    say("wrong", "\"text\": " + quoted(wrong.what()));
    return 9;
  } catch (const std::exception& error) {
    say("unexpected", "\"text\": " + quoted(error.what()));
    return 8;
  }
}

}  // namespace
}  // namespace kolo::test

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  return kolo::test::run({argv[1], std::atoi(argv[2]), std::atoi(argv[3]), argv[4]});
}
