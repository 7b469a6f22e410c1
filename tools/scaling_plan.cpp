#include "scaling_plan.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <regex>
#include <set>
#include <string_view>

#include "base/environment.h"
#include "base/strings.h"
#include "kolo/error.h"
#include "scaling_statistics.h"

namespace kolo::tools {
namespace {

constexpr int kMostRanks = 1'000'000;
constexpr int kMostHosts = 64;
constexpr const char* kBucketSizes[] = {"1M", "4M", "64M"};  // the default is 8M or 16M
constexpr const char* kAlgorithms[] = {"direct", "ring", "tree", "halving_doubling", "recursive_doubling"};

void require(bool holds, const std::string& text) {
  if (!holds) throw UsageError(text);
}

std::string hyphenated(std::string text) {
  std::ranges::replace(text, ' ', '-');
  return text;
}

Row variant_of(const Row& base, const std::string& variant, const std::string& variable, const std::string& value) {
  Row row = base;
  row.variant = variant;
  row.key += "-" + hyphenated(variant);
  row.environment[variable] = value;
  return row;
}

void add_ablations(const ScalingOptions& options, const Row& base, std::vector<Row>& rows) {
  const auto asked = [&](const char* what) { return std::ranges::find(options.ablate, what) != options.ablate.end(); };
  if (asked("bucket")) {
    for (const std::string size : kBucketSizes) {
      rows.push_back(variant_of(base, "bucket " + size, "KOLO_BUCKET_BYTES", size));
    }
  }
  if (asked("overlap")) rows.push_back(variant_of(base, "overlap off", "KOLO_OVERLAP", "off"));
  if (!asked("algorithm")) return;
  for (const std::string algorithm : kAlgorithms) {
    if (base.hosts > 0 && algorithm == "direct") continue;  // needs shared memory of all ranks
    rows.push_back(variant_of(base, "algorithm " + algorithm, "KOLO_ALGORITHM", algorithm));
  }
}

std::vector<std::string> command_for(const ScalingOptions& options, int ranks) {
  std::vector<std::string> command = options.command;
  if (options.global_batch == 0) return command;
  require(options.global_batch % ranks == 0, "--global-batch " + std::to_string(options.global_batch) +
                                                 " cannot be divided by " + std::to_string(ranks) + " ranks");
  command.push_back(options.batch_flag);
  command.push_back(std::to_string(options.global_batch / ranks));
  return command;
}

void check(const ScalingOptions& options) {
  require(!options.command.empty(), "the program is missing. Put it behind `--`");
  require(options.repeat >= 1, "--repeat must be at least 1");
  require(options.warmup >= 0 && options.steps - options.warmup >= static_cast<int>(kBlockSteps),
          "--steps must exceed --warmup by at least " + std::to_string(kBlockSteps) + ", the steps of one block");
  require(options.items_per_step >= 0, "--items-per-step must be positive");
  require(options.rates.empty() || !options.hosts.empty(), "--rate is for --hosts");
  require(options.hosts.empty() || options.hosts.back() <= kMostHosts,
          "--hosts: at most " + std::to_string(kMostHosts) + " hosts can be emulated");
  for (const std::string& rate : options.rates) {
    require(std::regex_match(rate, std::regex(R"(\d+(\.\d+)?[kmg]bit)")),
            "--rate: '" + rate + "' is not a bandwidth such as 500mbit, 1gbit or 2.5gbit");
  }
  require(options.hosts.empty() || options.launcher.empty(), "--hosts has its own launcher; leave out --launcher");
  for (const std::string& what : options.ablate) {
    require(what == "bucket" || what == "overlap" || what == "algorithm",
            "--ablate knows bucket, overlap and algorithm, not '" + what + "'");
  }
  for (const char* variable : {"KOLO_SYNC", "KOLO_STEP_LOG", "KOLO_TIMELINE"}) {
    require(!base::get_environment(variable), std::string(variable) + " is set, but `kolo scaling` sets it. Unset it");
  }
  const std::string program = std::filesystem::path(options.command.front()).filename().string();
  require(options.peers.empty() || program == kPeerProgram, std::string("--peers compares with ") + kPeerProgram +
                                                                ", whose model and options the peers have, not with " +
                                                                program + ". Leave out --peers");
  if (options.global_batch == 0) return;
  require(options.global_batch > 0, "--global-batch must be positive");
  const auto flag = std::ranges::find_if(options.command, [&](const std::string& word) {
    return word == options.batch_flag || word.starts_with(options.batch_flag + "=");
  });
  require(flag == options.command.end(),
          "the program has " + options.batch_flag + " already, which --global-batch sets for each number of ranks");
}

// Emulated hosts reach each other by eth0; on one host gloo uses the loopback interface.
void add_peers(const ScalingOptions& options, const Row& base, std::vector<Row>& rows) {
  const std::string interface = base.hosts > 0 ? "eth0" : options.launcher.empty() ? "lo" : "";
  for (const Peer& peer : options.peers) {
    if (!peer.missing.empty()) continue;
    Row row = base;
    row.peer = peer.name;
    row.variant = peer.title;
    row.key += "-" + peer.name;
    row.command = peer_command(peer, base.command, interface);
    rows.push_back(std::move(row));
  }
}

void add_count(const ScalingOptions& options, Row row, std::vector<Row>& rows) {
  row.command = command_for(options, row.ranks);
  rows.push_back(row);
  if (row.ranks > 1) {
    rows.push_back(variant_of(row, kSyncOff, "KOLO_SYNC", "off"));
    add_ablations(options, row, rows);
  }
  add_peers(options, row, rows);
}

}  // namespace

std::string full_name(const std::string& name, const std::string& variant) {
  return variant.empty() ? name : name + ", " + variant;
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    if (end > begin) words.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

std::vector<int> parse_counts(const std::string& text, const std::string& what) {
  std::set<int> counts;
  for (const std::string& word : split(text, ',')) {
    int count = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), count);
    require(error == std::errc() && end == word.data() + word.size() && count >= 1 && count <= kMostRanks,
            what + ": '" + word + "' is not a number from 1 to " + std::to_string(kMostRanks));
    counts.insert(count);
  }
  require(!counts.empty(), what + " needs numbers such as 1,2,4");
  return {counts.begin(), counts.end()};
}

std::vector<Row> make_rows(const ScalingOptions& options) {
  check(options);
  std::vector<int> ranks = options.ranks;
  if (ranks.empty() || ranks.front() != 1) ranks.insert(ranks.begin(), 1);
  std::vector<Row> rows;
  for (const int count : ranks) {
    Row row;
    row.ranks = count;
    row.key = "ranks" + std::to_string(count);
    row.name = base::counted(static_cast<std::size_t>(count), "rank");
    add_count(options, row, rows);
  }
  const std::vector<std::string> rates = options.rates.empty() ? std::vector<std::string>{""} : options.rates;
  for (const int count : options.hosts) {
    for (const std::string& rate : rates) {
      Row row;
      row.ranks = row.hosts = count;
      row.rate = rate;
      row.key = "hosts" + std::to_string(count) + (rate.empty() ? "" : "-" + rate);
      row.name = base::counted(static_cast<std::size_t>(count), "host") + (rate.empty() ? "" : ", " + rate);
      add_count(options, row, rows);
    }
  }
  return rows;
}

}  // namespace kolo::tools
