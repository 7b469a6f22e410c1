#include "peer_log.h"

#include <unistd.h>

#include <nlohmann/json.hpp>

#include "kolo/error.h"

namespace kolo::bench {
namespace {

using nlohmann::ordered_json;

double us(std::chrono::steady_clock::duration time) { return std::chrono::duration<double, std::micro>(time).count(); }

}  // namespace

PeerLog::PeerLog(const std::string& start, const Placement& placement,
                 const std::map<std::string, std::string>& facts) {
  if (start.empty()) return;
  const std::string path = start + ".rank" + std::to_string(placement.rank) + ".jsonl";
  file_.open(path, std::ios::app);
  if (!file_) throw UsageError("step log: cannot open " + path + ". Its folder must exist and be writable");
  const ordered_json head{{"kind", "step_log"},        {"rank", placement.rank}, {"size", placement.size},
                          {"host", placement.host},    {"process", ::getpid()},  {"clock_offset_us", 0},
                          {"clock_error_us", nullptr}, {"facts", facts}};
  file_ << head.dump() << std::endl;
}

void PeerLog::updated(std::size_t reductions, std::uint64_t bytes) {
  const auto now = Clock::now();
  const ordered_json line{{"kind", "step"},
                          {"step", ++step_},
                          {"start_us", us(start_.time_since_epoch())},
                          {"step_us", us(now - start_)},
                          {"before_first_gradient_us", us(first_gradient_ - start_)},
                          {"backward_us", us(last_gradient_ - first_gradient_)},
                          {"exposed_us", us(reduced_ - last_gradient_)},
                          {"optimizer_us", us(now - reduced_)},
                          {"other_us", 0},
                          {"communication_us", us(reduced_ - last_gradient_)},
                          {"synchronize_us", us(last_gradient_ - start_)},
                          {"reductions", reductions},
                          {"reduced_bytes", bytes}};
  start_ = now;
  if (file_.is_open()) file_ << line.dump() << std::endl;
}

}  // namespace kolo::bench
