#pragma once
// Options that several of `kolo perf`'s subcommands have.
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

}  // namespace kolo::tools
