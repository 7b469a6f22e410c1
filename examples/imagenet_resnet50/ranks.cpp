#include "ranks.h"

#include <fcntl.h>
#include <malloc.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <map>

#include "kolo/context.h"
#include "kolo/error.h"
#include "kolo/spi/communicator.h"

namespace imagenet {
namespace {

// Gathers texts. The purpose is the call and its line, so that ranks in different calls throw.
std::vector<std::string> exchange(kolo::Context& context, const std::string& call, const Where& where,
                                  const std::string& text = {}) {
  const auto file = std::filesystem::path(where.file_name()).filename().string();
  return kolo::gather_texts(context, call + " at " + file + ":" + std::to_string(where.line()), text);
}

template <class T>
void allreduce(kolo::Context& context, std::span<T> values, kolo::DType dtype, kolo::ReduceOp op) {
  if (context.size() == 1 || values.empty()) return;
  kolo::AllreduceOptions options;
  options.data = reinterpret_cast<std::byte*>(values.data());
  options.count = values.size();
  options.dtype = dtype;
  options.op = op;
  context.communicator().allreduce(options);
}

void print(const std::string& text) { std::fprintf(stderr, "imagenet_resnet50: %s\n", text.c_str()); }

// True if this process may run on one core only, for example because mpirun bound it.
bool has_one_core() {
  std::array<cpu_set_t, 16> sets{};  // of 1,024 cores each
  return sched_getaffinity(0, sizeof sets, sets.data()) == 0 && CPU_COUNT_S(sizeof sets, sets.data()) == 1;
}

}  // namespace

std::vector<std::string> gather(kolo::Context& context, const std::string& text, Where where) {
  return exchange(context, "gather", where, text);
}

// The values travel with the purpose, because they are few. All ranks add them in the same order.
void sum_over_ranks(kolo::Context& context, std::span<double> values, Where where) {
  const auto bytes = std::as_bytes(values);
  const auto texts = exchange(context, "sum of " + std::to_string(values.size()) + " numbers", where,
                              {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  std::ranges::fill(values, 0.0);
  std::vector<double> theirs(values.size());
  for (const std::string& text : texts) {
    text.copy(reinterpret_cast<char*>(theirs.data()), values.size_bytes());
    for (std::size_t i = 0; i < values.size(); ++i) values[i] += theirs[i];
  }
}

void average_over_ranks(kolo::Context& context, std::span<float> values, Where where) {
  exchange(context, "average of " + std::to_string(values.size()) + " numbers", where);
  allreduce(context, values, kolo::DType::f32, kolo::ReduceOp::average);
}

void sum_in_step(kolo::Context& context, std::span<double> values) {
  allreduce(context, values, kolo::DType::f64, kolo::ReduceOp::sum);
}

// Rank 0's text of the exchange is a digit, 1 after an error, and the number of bytes that are then broadcast.
std::string from_rank_0(kolo::Context& context, const std::function<std::string()>& action, Where where) {
  std::string text, head;
  if (context.rank() == 0) {
    bool failed = false;
    try {
      text = action();
    } catch (const std::exception& error) {
      failed = true;
      text = error.what();
    }
    head = (failed ? '1' : '0') + std::to_string(text.size());
  }
  head = exchange(context, "text of rank 0", where, head).front();
  text.resize(std::stoull(head.substr(1)));
  if (context.size() > 1 && !text.empty()) {
    kolo::BroadcastOptions options;
    options.data = reinterpret_cast<std::byte*>(text.data());
    options.bytes = text.size();
    context.communicator().broadcast(options);
  }
  if (head.front() != '0') throw kolo::Error(text);
  return text;
}

std::string names_of(const std::vector<std::size_t>& ranks) {
  constexpr std::size_t kNamed = 16;
  std::string text = ranks.size() == 1 ? "rank" : "ranks";
  for (std::size_t i = 0; i < std::min(ranks.size(), kNamed); ++i) {
    text += (i > 0 ? ", " : " ") + std::to_string(ranks[i]);
  }
  if (ranks.size() > kNamed) text += " and " + std::to_string(ranks.size() - kNamed) + " more";
  return text;
}

std::string summary_of(const std::vector<std::string>& texts) {
  std::vector<std::string> different;  // in the order of their first ranks
  std::map<std::string, std::vector<std::size_t>> ranks;
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    if (texts[rank].empty()) continue;
    if (!ranks.contains(texts[rank])) different.push_back(texts[rank]);
    ranks[texts[rank]].push_back(rank);
  }
  std::string summary;
  for (const std::string& text : different) {
    if (!summary.empty()) summary += '\n';
    if (ranks[text].size() < texts.size()) summary += names_of(ranks[text]) + ": ";
    summary += text;
  }
  return summary;
}

void report_failure(kolo::Context& context, const std::exception& error) {
  // After these errors the group has ended, and some ranks may be gone.
  const bool group_ended = dynamic_cast<const kolo::PeerLostError*>(&error) != nullptr ||
                           dynamic_cast<const kolo::TimeoutError*>(&error) != nullptr ||
                           dynamic_cast<const kolo::BackendError*>(&error) != nullptr;
  if (!group_ended) {
    try {
      const auto texts = gather(context, error.what());
      if (context.rank() == 0) print(summary_of(texts));
      return;
    } catch (const std::exception&) {
      // A rank has ended meanwhile.
    }
  }
  print("rank " + std::to_string(context.rank()) + ": " + error.what());
}

void prepare_streams() {
  for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; ++stream) {
    if (::fcntl(stream, F_GETFD) < 0) (void)!::open("/dev/null", O_RDWR);  // gets the lowest free descriptor
  }
  std::signal(SIGPIPE, SIG_IGN);
}

void keep_freed_memory() {
  // glibc refuses a threshold above 32 MiB, and activations are larger: hence no block has a mapping of its own.
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
  mallopt(M_TOP_PAD, 64 << 20);
}

std::uint64_t minor_faults() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::uint64_t>(usage.ru_minflt);
}

std::string binding_warning(int ranks, int threads, int workers) {
  const long share = sysconf(_SC_NPROCESSORS_ONLN) / std::max(ranks, 1);
  if (!has_one_core() || share <= 1 || threads + workers <= 1) return {};
  return "this rank may use only one core, for " + std::to_string(threads) + " LibTorch and " +
         std::to_string(workers) +
         " loader threads. Did the launcher bind it? Pass --bind-to none to mpirun (--bind none to kolo run), or "
         "--map-by slot:PE=n";
}

}  // namespace imagenet
