#pragma once
// Options of `kolo scaling`, and its rows. A row is one way to start the program.
#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "scaling_peers.h"

namespace kolo::tools {

struct ScalingOptions {
  std::vector<int> ranks;           // on this host
  std::vector<int> hosts;           // emulated hosts, with a rank on each
  std::vector<std::string> rates;   // of their links; empty: not shaped
  std::vector<std::string> ablate;  // bucket, overlap, algorithm
  std::vector<Peer> peers;          // also missing ones, which get no rows
  int repeat = 3;
  int steps = 100;
  int warmup = 10;
  double items_per_step = 0;  // of one rank; 0: not known
  int global_batch = 0;       // 0: weak scaling
  std::string batch_flag = "--batch";
  std::string out;
  std::string launcher;  // its words, with {ranks} or before the number of ranks; empty: kolo run -n
  std::chrono::milliseconds timeout{300'000};
  std::chrono::milliseconds budget{};  // for all runs; 0: no limit
  std::vector<std::string> command;
};

struct Row {
  std::string key;      // of its folders and in results.json: "ranks2", "hosts4-1gbit-bucket-4M"
  std::string name;     // for people: "2 ranks", "4 hosts, 1gbit"
  std::string variant;  // what differs from the defaults of kolo: "", "sync off", "bucket 4M", "algorithm tree"; or the
                        // title of the peer
  std::string peer;     // the name of a Peer; empty: kolo
  int ranks = 1;
  int hosts = 0;  // emulated; 0: this host
  std::string rate;
  std::map<std::string, std::string> environment;
  std::vector<std::string> command;
};

// "2 ranks, sync off"
[[nodiscard]] std::string full_name(const std::string& name, const std::string& variant);

inline constexpr const char* kSyncOff = "sync off";

// In the order of the table: for each count kolo, the same ranks with KOLO_SYNC=off, the ablations and the peers. A row
// with one rank is the first, because efficiency refers to it. Throws UsageError.
[[nodiscard]] std::vector<Row> make_rows(const ScalingOptions& options);

// "1,2,4"; `what` names the option in errors. Throws UsageError.
[[nodiscard]] std::vector<int> parse_counts(const std::string& text, const std::string& what);
// The words between separators; empty ones are left out.
[[nodiscard]] std::vector<std::string> split(const std::string& text, char separator);

}  // namespace kolo::tools
