#pragma once
// The subcommands. A callback reports failure by an exception: main() prints it and exits with 1.

namespace CLI {
class App;
}

namespace kolo::tools {

void add_checkpoint_command(CLI::App& app);
void add_config_command(CLI::App& app);
// Returns `perf`, for further measurements to be added to.
CLI::App& add_perf_command(CLI::App& app);
void add_sweep_command(CLI::App& perf);
void add_engine_command(CLI::App& perf);
void add_data_command(CLI::App& app);
void add_trace_command(CLI::App& app);
// `status` becomes what the program exits with.
void add_run_command(CLI::App& app, int& status);
void add_scaling_command(CLI::App& app, int& status);  // as add_run_command()

}  // namespace kolo::tools
