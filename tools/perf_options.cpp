#include "perf_options.h"

#include <CLI/CLI.hpp>

#include "kolo/error.h"
#include "kolo/spi/communicator.h"

namespace kolo::tools {
namespace {

// What reads sizes takes a negative one for one that is very large.
std::string refuse_negative(const std::string& text) { return text.starts_with('-') ? text + " is negative" : ""; }

// Default sizes are bytes, or whole MiB.
void add_size(CLI::App& command, const std::string& name, std::size_t& bytes, const std::string& text) {
  constexpr std::size_t kMiB = std::size_t{1} << 20;
  CLI::Option* option = command.add_option(name, bytes, text);
  option->transform(CLI::AsSizeValue(false))->transform(CLI::Validator(refuse_negative, ""));
  option->default_str(bytes % kMiB == 0 ? std::to_string(bytes / kMiB) + "M" : std::to_string(bytes));
  show_in_help(*option, "SIZE");
}

}  // namespace

void show_in_help(CLI::Option& option, const std::string& values) {
  option.option_text(values + " [" + option.get_default_str() + "]");
}

void add_size_options(CLI::App& command, PerfOptions& options) {
  add_size(command, "--min", options.min_bytes, "smallest size: bytes, or with K, M or G (powers of 1024)");
  add_size(command, "--max", options.max_bytes, "largest size; sizes double");
}

void add_buffer_option(CLI::App& command, std::string& buffer) {
  CLI::Option* option =
      command.add_option("--buffer", buffer, "registered: memory that kolo allocated; private: other memory");
  option->check(CLI::IsMember({"registered", "private"}))->capture_default_str();
  show_in_help(*option, "registered|private");
}

void add_json_option(CLI::App& command, std::string& file) {
  command.add_option("--json", file, "file for JSON lines, written by rank 0")->option_text("FILE");
}

std::ofstream open_json(Context& context, const std::string& path) {
  std::ofstream file;
  if (path.empty()) return file;
  if (context.rank() == 0) file.open(path);
  if (total(context.communicator(), file ? 0 : 1, context.config().timeout) != 0)
    throw UsageError("--json: cannot write " + path);
  return file;
}

}  // namespace kolo::tools
