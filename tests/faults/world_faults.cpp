// A world in which somebody is lost while everybody does the same thing over and over, and what each live rank makes of
// it: prints what it saw and after how long, then goes on with the survivors and checks that they compute.
//
//   world_faults HOW WHO WHAT         under mpirun --enable-recovery
//     HOW   kill | exit | stop (until somebody wakes it) | stay (somebody else does the harm)
//           idle (never comes again; the others' deadline is three seconds)
//           hushed (the same, and the others end as if nothing had been)
//           late (nobody is lost: one ends long after the others)
//           leave, all_leave (one or all call exit(0) within their Context)
//     WHO   ranks as 2 or 0,3: one after the other, by their first numbers; each is lost out of the world of those left
//     WHAT  named | rounds | communicator: what all ranks do all the time
//
// Lines, one call each: "rank R: EVENT ..." with first numbers of ranks; times are Unix times in milliseconds.
#include <unistd.h>

#include <sstream>
#include <vector>

#include "faults/survivor.h"
#include "kolo/spi/communicator.h"
#include "kolo/spi/engine.h"

namespace kolo::test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

struct Orders {
  std::string how;
  std::vector<int> who;
  std::string what;
};

long milliseconds_since(Clock::time_point begin) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin).count();
}

// Unix time in milliseconds, so that ranks and the one who does the harm can be compared.
long long now_in_milliseconds() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

void say(int rank, const std::string& words) {
  std::printf("rank %d: %s\n", rank, words.c_str());
  std::fflush(stdout);
}

class Work {
 public:
  Work(Context& context, std::string what) : context_(context), what_(std::move(what)), input_(50'000) {
    for (std::size_t i = 0; i < input_.size(); ++i) input_[i] = static_cast<float>(context.rank() + 1);
    if (what_ == "rounds") reducer_ = context.engine().make_reducer({{"a", {50'000}, {1}, DType::f32}}, {});
  }
  // One step; the sum over r + 1 of all ranks r must come out.
  void step() {
    if (what_ == "rounds") {
      reducer_->contribute(0, input_.data());
      reducer_->finish();
      return;
    }
    std::vector<float> output = input_;
    if (what_ == "named") {
      Request request;
      request.name = "sum";
      request.sizes = {static_cast<std::int64_t>(input_.size())};
      request.input = input_.data();
      request.output = output.data();
      context_.engine().submit(request).wait();
    } else {
      AllreduceOptions options;
      options.data = reinterpret_cast<std::byte*>(output.data());
      options.count = output.size();
      context_.communicator().allreduce(options, context_.config().timeout);
    }
    const int size = context_.size();
    const auto expected = static_cast<float>(size * (size + 1) / 2);
    for (const float value : output) {
      if (value != expected) throw std::runtime_error("a wrong sum");
    }
  }

 private:
  Context& context_;
  std::string what_;
  std::vector<float> input_;
  std::unique_ptr<GradientReducer> reducer_;
};

// After the first loss, each collective that is called directly must throw that loss at once.
// Returns a text that says how the rank deviates, or an empty text.
std::string call_after_loss(Context& context, Rank lost) {
  std::vector<float> data(1000, 1.0F);
  const auto until = Clock::now() + 500ms;  // peers and monitor learn of the loss meanwhile
  for (int call = 0; Clock::now() < until; ++call) {
    try {
      if (call % 2 == 0) {
        context.communicator().barrier(context.config().timeout);
      } else {
        const auto bytes = data.size() * sizeof data[0];
        context.communicator().broadcast({reinterpret_cast<std::byte*>(data.data()), bytes, 0},
                                         context.config().timeout);
      }
      return "call " + std::to_string(call) + " after the loss returned";
    } catch (const PeerLostError& error) {
      if (error.rank() != lost) return "call " + std::to_string(call) + " after the loss: " + error.what();
    } catch (const std::exception& error) {
      return "call " + std::to_string(call) + " after the loss, another type: " + error.what();
    }
  }
  return {};
}

bool is_idle(const Orders& orders) { return orders.how == "idle" || orders.how == "hushed"; }

void come_to_harm(const Orders& orders, int rank) {
  say(rank, "harmed at " + std::to_string(now_in_milliseconds()) + " process " + std::to_string(getpid()));
  if (orders.how == "kill") die();
  if (orders.how == "exit") _exit(3);
  if (orders.how == "orderly_exit") std::exit(7);  // its handlers run, MPI's among them
  if (orders.how == "leave" || orders.how == "all_leave") std::exit(0);
  if (orders.how == "stop") std::raise(SIGSTOP);
  while (is_idle(orders)) pause();
}

// Works until an error, which is printed; true if it was the loss of somebody else.
bool work_until_loss(Context& context, const Orders& orders, int victim, const std::vector<int>& numbers) {
  const int rank = numbers[static_cast<std::size_t>(context.rank())];
  auto begin = Clock::now();
  try {
    Work work(context, orders.what);
    for (int steps = 0;; ++steps) {
      if (steps == 10 && (rank == victim || orders.how == "all_leave")) come_to_harm(orders, rank);
      begin = Clock::now();
      work.step();
    }
  } catch (const PeerLostError& error) {
    const int lost = numbers.at(static_cast<std::size_t>(error.rank()));
    say(rank, "lost " + std::to_string(lost) + " at " + std::to_string(now_in_milliseconds()) + " waited " +
                  std::to_string(milliseconds_since(begin)) + ": " + error.what());
    if (error.rank() == context.rank()) return false;
    const std::string complaint = call_after_loss(context, error.rank());
    if (!complaint.empty()) say(rank, "error: process " + std::to_string(getpid()) + ": " + complaint);
    return complaint.empty();
  } catch (const std::exception& error) {
    say(rank, "error: process " + std::to_string(getpid()) + ": " + error.what());
    return false;
  }
}

int end_one_by_one(std::unique_ptr<Context> context, const Orders& orders) {
  const int rank = context->rank();
  for (int i = 0; i < 10; ++i) Work(*context, "named").step();
  context.reset();
  if (rank == orders.who.front()) std::this_thread::sleep_for(6s);
  say(rank, "ends in order");
  return 0;
}

int run(const Orders& orders) {
  Config config = Config::from_environment();
  config.timeout = is_idle(orders) || orders.how == "late" ? 3s : 300s;  // a deadline is not to be taken for a loss
  auto context = Context::create(config);
  if (orders.how == "late") return end_one_by_one(std::move(context), orders);
  const int rank = context->rank();  // by which lines are told apart
  std::vector<int> numbers(static_cast<std::size_t>(context->size()));
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<int>(i);
  for (const int victim : orders.who) {
    if (!work_until_loss(*context, orders, victim, numbers)) return orders.how == "hushed" ? 0 : 4;
    if (orders.how == "leave") return 0;  // nobody is lost who could be done without
    const auto begin = Clock::now();
    std::vector<int> left;
    std::string text;
    for (const Rank survivor : context->survivors()) {
      left.push_back(numbers[static_cast<std::size_t>(survivor)]);
      text += ' ' + std::to_string(left.back());
    }
    say(rank, "survivors" + text + " after " + std::to_string(milliseconds_since(begin)) + " ms");
    numbers = left;
    const int device = context->placement().device;
    context = Context::create_over_survivors(*context);
    if (context->placement().device != device) throw std::runtime_error("a survivor has another device than before");
    say(rank, "begins anew as " + std::to_string(context->rank()) + " of " + std::to_string(context->size()) +
                  " after " + std::to_string(milliseconds_since(begin)) + " ms");
  }
  Work work(*context, orders.what);
  for (int i = 0; i < 20; ++i) work.step();
  context->communicator().barrier(60s);
  say(rank, "ok");
  return 0;
}

int run_and_tell(const Orders& orders) {
  alarm(kEndOfAll * 3);
  try {
    return run(orders);
  } catch (const std::exception& error) {
    std::printf("a rank ends: %s\n", error.what());
    std::fflush(stdout);
    return 5;
  }
}

}  // namespace
}  // namespace kolo::test

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  kolo::test::Orders orders{argv[1], {}, argv[3]};
  std::istringstream list(argv[2]);
  for (std::string one; std::getline(list, one, ',');) orders.who.push_back(std::atoi(one.c_str()));
  return kolo::test::run_and_tell(orders);
}
