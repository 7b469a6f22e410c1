// The `kolo` program: one file a subcommand, each adds itself to the command line.
#include <CLI/CLI.hpp>

#include <cstdio>
#include <exception>
#include <string_view>

#include "commands.h"
#include "run_shim.h"

int main(int argc, char** argv) {
  // One for each rank, in its place, started by mpirun: not for people.
  if (argc > 3 && argv[1] == std::string_view("rank-shim")) return kolo::tools::run_rank_shim({argv + 3, argv + argc});
  int status = 0;
  CLI::App app("kolo: synchronous data-parallel training for LibTorch programs", "kolo");
  app.set_version_flag("--version", "kolo " KOLO_VERSION);
  app.require_subcommand(1);
  kolo::tools::add_config_command(app);
  kolo::tools::add_engine_command(kolo::tools::add_perf_command(app));
  kolo::tools::add_data_command(app);
  kolo::tools::add_run_command(app, status);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "kolo: %s\n", error.what());
    return 1;
  }
  return status;
}
