#pragma once
// Timelines for tests, as src/telemetry/timeline.cpp writes them, and what `kolo trace merge` made of them.
#include <zlib.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/temporary_folder.h"

namespace kolo::tools::test {

// The clock of a rank at the true time t: t + offset + drift * (t - start).
struct FakeClock {
  double offset_us = 0;
  double drift = 0;
  double start_us = 0;
  [[nodiscard]] double at(double t) const { return t + offset_us + drift * (t - start_us); }
};

struct FakeRank {
  int rank = 0;
  int size = 1;
  std::string host = "node0";
  FakeClock clock{};
  double measured_offset_us = 0;
  double error_us = 0;
};

// A file's text, from the head to the closing bracket.
class FakeTimeline {
 public:
  explicit FakeTimeline(FakeRank rank) : rank_(std::move(rank)) {
    const nlohmann::json head{{"kind", "timeline"},
                              {"rank", rank_.rank},
                              {"size", rank_.size},
                              {"host", rank_.host},
                              {"process", 100 + rank_.rank},
                              {"clock_offset_us", rank_.measured_offset_us},
                              {"clock_error_us", rank_.error_us},
                              {"facts", {{"KOLO_OVERLAP", "off"}}}};
    const std::string number = std::to_string(rank_.rank);
    text_ = R"([
{"name":"kolo","ph":"M","pid":)" +
            number + R"(,"args":)" + head.dump() + "}";
    add_line(R"({"name":"process_name","ph":"M","pid":)" + number + R"(,"args":{"name":"rank )" + number + R"("}})");
    add_line(R"({"name":"process_sort_index","ph":"M","pid":)" + number + R"(,"args":{"sort_index":)" + number + "}}");
  }

  void add_line(const std::string& line) { text_ += ",\n" + line; }
  void add_track(std::int64_t tid, const std::string& name) {
    add_line(R"({"name":"thread_name","ph":"M","pid":)" + std::to_string(rank_.rank) + R"(,"tid":)" +
             std::to_string(tid) + R"(,"args":{"name":")" + name + R"("}})");
  }
  // Times are true ones. `more`: further fields.
  void add_span(const std::string& name, std::int64_t tid, double begin_us, double end_us,
                const std::string& more = "") {
    char times[96];
    const double begin = rank_.clock.at(begin_us);
    std::snprintf(times, sizeof times, R"("ts":%.3f,"dur":%.3f)", begin, rank_.clock.at(end_us) - begin);
    add_line(R"({"name":")" + name + R"(","ph":"X","pid":)" + std::to_string(rank_.rank) + R"(,"tid":)" +
             std::to_string(tid) + "," + times + more + "}");
  }
  void add_reduction(int bucket, std::uint64_t round, double begin_us, double end_us) {
    add_span("reduction", 1000 + bucket, begin_us, end_us,
             R"(,"args":{"bytes":4096,"round":)" + std::to_string(round) + R"(,"algorithm":"direct"})");
  }

  [[nodiscard]] std::string text() const { return text_ + "\n]\n"; }

 private:
  FakeRank rank_;
  std::string text_;
};

inline std::string text_of(const std::filesystem::path& file) {
  std::ostringstream text;
  text << std::ifstream(file, std::ios::binary).rdbuf();
  return text.str();
}

// Throws if the file is not gzip, or damaged.
inline std::string unzipped(const std::filesystem::path& path) {
  const std::string raw = text_of(path);
  if (!raw.starts_with("\x1f\x8b")) throw std::runtime_error("no gzip file");
  z_stream stream{};
  if (inflateInit2(&stream, 15 + 16) != Z_OK) throw std::runtime_error("inflateInit2");
  std::string text;
  std::vector<char> block(1 << 16);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(raw.data()));
  stream.avail_in = static_cast<uInt>(raw.size());
  int status = Z_OK;
  while (status == Z_OK) {
    stream.next_out = reinterpret_cast<Bytef*>(block.data());
    stream.avail_out = static_cast<uInt>(block.size());
    status = inflate(&stream, Z_NO_FLUSH);
    text.append(block.data(), block.size() - stream.avail_out);
  }
  inflateEnd(&stream);
  if (status != Z_STREAM_END || stream.avail_in != 0) throw std::runtime_error("damaged gzip file");
  return text;
}

inline std::vector<nlohmann::json> spans_of(const nlohmann::json& trace, int rank) {
  std::vector<nlohmann::json> spans;
  for (const nlohmann::json& event : trace.at("traceEvents")) {
    if (event.at("ph") == "X" && event.at("pid") == rank) spans.push_back(event);
  }
  return spans;
}

}  // namespace kolo::tools::test
