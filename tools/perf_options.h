#pragma once
// Options that several of `kolo perf`'s subcommands have.
#include <string>

#include "perf_measure.h"

namespace CLI {
class App;
}

namespace kolo::tools {

void add_size_options(CLI::App& command, PerfOptions& options);
void add_buffer_option(CLI::App& command, std::string& buffer);
void add_json_option(CLI::App& command, std::string& file);

}  // namespace kolo::tools
