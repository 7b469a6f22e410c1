#pragma once
// Options that several of `kolo perf`'s subcommands have.
#include <fstream>
#include <string>

#include "perf_measure.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace kolo::tools {

// In the help: "--name VALUES [DEFAULT]".
void show_in_help(CLI::Option& option, const std::string& values);
void add_size_options(CLI::App& command, PerfOptions& options);
void add_buffer_option(CLI::App& command, std::string& buffer);
void add_json_option(CLI::App& command, std::string& file);

// Opens the file of --json on rank 0; with an empty `path` no rank opens one. Collective: if rank 0 cannot write the
// file, all ranks throw a UsageError.
[[nodiscard]] std::ofstream open_json(Context& context, const std::string& path);

}  // namespace kolo::tools
