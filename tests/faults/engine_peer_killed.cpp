// One rank of a world dies by SIGKILL at a point that is given by name; all others must learn in time which, whatever
// they wait in, and be able to end. For peer_killed.py: engine_peer_killed POINT VICTIM under mpirun --enable-recovery.
#include <cstring>
#include <map>
#include <vector>

#include "faults/survivor.h"
#include "kolo/spi/communicator.h"
#include "kolo/spi/engine.h"

namespace kolo::test {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kCount = 500'000;  // 2 MB: several buckets
constexpr int kCleanSteps = 3;           // the first is negotiated, the others are frozen

struct Point {
  Context& context;
  bool dies;
  Rank victim;
};

Request allreduce(const std::string& name, const std::vector<float>& input) {
  Request request;
  request.name = name;
  request.sizes = {static_cast<std::int64_t>(input.size())};
  request.input = input.data();
  return request;
}

// The victim never submits.
std::string named(const Point& point) {
  const std::vector<float> input(kCount, 1.0F);
  point.context.engine().submit(allreduce("before", input)).wait();
  if (point.dies) die();
  auto pending = point.context.engine().submit(allreduce("pending", input));
  auto complaint = outlive(point.victim, [&] { pending.wait(); });
  if (!complaint.empty()) return complaint;
  return outlive(point.victim, [&] { point.context.engine().submit(allreduce("later", input)).wait(); });
}

// The victim dies somewhere in a stream of operations.
std::string named_running(const Point& point) {
  const std::vector<float> input(kCount * 8, 1.0F);
  if (point.dies) die_after(80ms);
  return outlive(point.victim, [&] {
    auto first = point.context.engine().submit(allreduce("first", input));
    auto second = point.context.engine().submit(allreduce("second", input));
    second.wait();
    first.wait();
  });
}

class Rounds {
 public:
  explicit Rounds(const Point& point)
      : point_(point), reducer_(point.context.engine().make_reducer(table(), {})), gradient_(kCount / 4, 1.0F) {}

  void contribute(std::size_t first, std::size_t last) {
    for (std::size_t i = first; i < last; ++i) reducer_->contribute(i, gradient_.data());
  }
  void round() {
    contribute(0, 4);
    reducer_->finish();
  }
  void clean_rounds() {
    for (int step = 0; step < kCleanSteps; ++step) round();
  }
  std::string outlive() {
    auto complaint = test::outlive(point_.victim, [this] { round(); });
    if (!complaint.empty()) return complaint;
    return test::outlive(point_.victim, [this] { round(); });
  }

 private:
  static std::vector<GradientInfo> table() {
    std::vector<GradientInfo> rows;
    for (const char* name : {"a", "b", "c", "d"}) rows.push_back({name, {kCount / 4}, {1}, DType::f32});
    return rows;
  }
  Point point_;
  std::unique_ptr<GradientReducer> reducer_;
  std::vector<float> gradient_;
};

std::string first_round(const Point& point) {
  Rounds rounds(point);
  if (point.dies) die();
  return rounds.outlive();
}

std::string before_contribute(const Point& point) {
  Rounds rounds(point);
  rounds.clean_rounds();
  if (point.dies) die();
  return rounds.outlive();
}

// Some of its buckets are on their way.
std::string before_finish(const Point& point) {
  Rounds rounds(point);
  rounds.clean_rounds();
  if (point.dies) {
    rounds.contribute(0, 3);
    die();
  }
  return rounds.outlive();
}

// Anywhere in a stream of rounds.
std::string inside_round(const Point& point) {
  Rounds rounds(point);
  rounds.clean_rounds();
  if (point.dies) die_after(80ms);
  return rounds.outlive();
}

// Collectives as plain calls, where no control message tells of anything.
std::string communicator(const Point& point) {
  auto& ranks = point.context.communicator();
  ranks.barrier(50s);
  if (point.dies) die();
  return outlive(point.victim, [&] { ranks.barrier(50s); });
}

std::string communicator_running(const Point& point) {
  auto& ranks = point.context.communicator();
  const std::size_t bytes = kCount * sizeof(float);
  auto buffers = ranks.allocate(std::span(&bytes, 1), 50s);
  AllreduceOptions options;
  options.data = buffers.front()->data().data();
  options.count = kCount;
  options.registered = buffers.front().get();
  if (point.dies) die_after(80ms);
  return outlive(point.victim, [&] { ranks.allreduce(options, 50s); });
}

int run(const std::string& name, Rank victim) {
  const std::map<std::string, std::string (*)(const Point&)> points{{"named", named},
                                                                    {"named_running", named_running},
                                                                    {"first_round", first_round},
                                                                    {"before_contribute", before_contribute},
                                                                    {"before_finish", before_finish},
                                                                    {"inside_round", inside_round},
                                                                    {"communicator", communicator},
                                                                    {"communicator_running", communicator_running}};
  alarm(kEndOfAll);
  auto context = Context::create(config_for_faults());
  const Rank rank = context->rank();
  const std::string complaint = points.at(name)({*context, rank == victim, victim});
  context.reset();
  return report(rank, complaint);
}

}  // namespace
}  // namespace kolo::test

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  return kolo::test::run(argv[1], std::atoi(argv[2]));
}
