#include "perf_options.h"

#include <CLI/CLI.hpp>

namespace kolo::tools {

namespace {

// What reads sizes takes a negative one for one that is very large.
std::string refuse_negative(const std::string& text) { return text.starts_with('-') ? text + " is negative" : ""; }

}  // namespace

void add_size_options(CLI::App& command, PerfOptions& options) {
  command.add_option("--min", options.min_bytes, "smallest size in bytes")
      ->transform(CLI::AsSizeValue(false))
      ->transform(CLI::Validator(refuse_negative, ""))
      ->capture_default_str();
  command.add_option("--max", options.max_bytes, "largest size in bytes; sizes double")
      ->transform(CLI::AsSizeValue(false))
      ->transform(CLI::Validator(refuse_negative, ""))
      ->capture_default_str();
}

void add_buffer_option(CLI::App& command, std::string& buffer) {
  command.add_option("--buffer", buffer, "registered: kolo's own memory; private: anybody's")
      ->check(CLI::IsMember({"registered", "private"}))
      ->capture_default_str();
}

void add_json_option(CLI::App& command, std::string& file) {
  command.add_option("--json", file, "file for JSON lines, written by rank 0");
}

}  // namespace kolo::tools
