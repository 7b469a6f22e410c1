#pragma once
// What ranks tell each other when they have written their parts of a checkpoint, as text.
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kolo/checkpoint.h"

namespace kolo {

// Lines "<size> <checksum> <name>".
[[nodiscard]] std::string to_lines(const std::vector<checkpoint::WrittenFile>& files);
[[nodiscard]] std::vector<checkpoint::WrittenFile> files_of(const std::string& lines);

struct RankReport {
  std::string failure;       // not empty: why this rank has written nothing
  std::uint64_t round = 0;   // after which the rank copied
  std::int64_t step = 0;     // as the program counts
  std::uint64_t layout = 0;  // CheckpointSnapshot::layout()
  bool finite = true;
  int host = 0;  // Placement::cross_rank
  std::vector<checkpoint::WrittenFile> files{};
};
[[nodiscard]] std::string to_text(const RankReport& report);

struct ReportSummary {
  std::string failure;  // of the first rank that failed or differs from rank 0; empty: the parts fit together
  bool finite = true;
  std::vector<checkpoint::WrittenFile> files;  // of the hosts that were asked for
};
// `texts`: to_text() of all ranks, in rank order.
[[nodiscard]] ReportSummary summarize(const std::vector<std::string>& texts,
                                      const std::function<bool(int host)>& with_files_of);

}  // namespace kolo
