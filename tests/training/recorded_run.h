#pragma once
// Ranks that are threads, whose steps are recorded in a temporary folder, and what is then in their files.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "kolo/context.h"
#include "support/temporary_folder.h"
#include "support/thread_ranks.h"

namespace kolo::test {

class RecordedRun {
 public:
  // `recorded`: the step log and the timeline are on.
  explicit RecordedRun(const std::vector<int>& hosts, Config config = {}, bool recorded = true) {
    if (recorded) {
      config.step_log = (folder_.path() / "steps").string();
      config.timeline = (folder_.path() / "trace").string();
    }
    config.log_sink = [this](LogLevel level, std::string_view line) {
      const std::lock_guard lock(mutex_);
      if (level >= LogLevel::warn) warnings_.emplace_back(line);
    };
    contexts_ = Context::create_local(hosts, config);
  }

  void on_ranks(const std::function<void(Context&)>& body) {
    run_ranks(size(), [&](int rank) { body(*contexts_[static_cast<std::size_t>(rank)]); });
  }
  void end() {
    for (const auto& context : contexts_) context->shutdown();
  }

  [[nodiscard]] int size() const { return static_cast<int>(contexts_.size()); }
  [[nodiscard]] Context& context(int rank) { return *contexts_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] const std::filesystem::path& folder() const { return folder_.path(); }
  [[nodiscard]] std::vector<std::string> warnings() {
    const std::lock_guard lock(mutex_);
    return warnings_;
  }

  // After end().
  [[nodiscard]] nlohmann::json head(int rank) const { return lines(rank).at(0); }
  [[nodiscard]] std::vector<nlohmann::json> steps(int rank) const {
    auto found = lines(rank);
    EXPECT_EQ(found.at(0).at("kind"), "step_log");
    found.erase(found.begin());
    return found;
  }
  // The spans of this name; "": all. `start`: of the file's name.
  [[nodiscard]] std::vector<nlohmann::json> spans(int rank, const std::string& name = "",
                                                  const std::string& start = "trace") const {
    std::vector<nlohmann::json> spans;
    std::ifstream file(folder_.path() / (start + ".rank" + std::to_string(rank) + ".json"));
    for (const auto& event : nlohmann::json::parse(file)) {
      if (event.at("ph") == "X" && (name.empty() || event.at("name") == name)) spans.push_back(event);
    }
    return spans;
  }

 private:
  [[nodiscard]] std::vector<nlohmann::json> lines(int rank) const {
    std::vector<nlohmann::json> lines;
    std::ifstream file(folder_.path() / ("steps.rank" + std::to_string(rank) + ".jsonl"));
    for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
    return lines;
  }

  TemporaryFolder folder_;
  std::mutex mutex_;
  std::vector<std::string> warnings_;
  std::vector<std::unique_ptr<Context>> contexts_;  // last: they write to the folder until their end
};

inline std::int64_t nanoseconds(const nlohmann::json& line, const char* field) {
  return std::llround(1000 * line.at(field).get<double>());
}

// What holds for the steps of any run without a failure.
inline void expect_sound(const std::vector<nlohmann::json>& steps, std::size_t count) {
  ASSERT_EQ(steps.size(), count);
  std::int64_t end = nanoseconds(steps[0], "start_us");
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const auto& step = steps[i];
    SCOPED_TRACE(step.dump());
    EXPECT_EQ(step.at("kind"), "step");
    EXPECT_EQ(step.at("step"), i + 1);
    EXPECT_EQ(nanoseconds(step, "start_us"), end) << "a step begins where the last one ends";
    end += nanoseconds(step, "step_us");
    std::int64_t sum = 0;
    for (const auto* field : {"before_first_gradient_us", "backward_us", "exposed_us", "optimizer_us", "other_us"}) {
      EXPECT_GE(nanoseconds(step, field), 0) << field;
      sum += nanoseconds(step, field);
    }
    EXPECT_EQ(sum, nanoseconds(step, "step_us"));
    EXPECT_LE(nanoseconds(step, "exposed_us"), nanoseconds(step, "communication_us"));
    EXPECT_LE(nanoseconds(step, "communication_us"),
              nanoseconds(step, "step_us") - nanoseconds(step, "before_first_gradient_us"))
        << "no reduction begins before the first gradient, or is in flight during forward";
    EXPECT_LE(nanoseconds(step, "synchronize_us"), nanoseconds(step, "step_us"));
  }
}

}  // namespace kolo::test
