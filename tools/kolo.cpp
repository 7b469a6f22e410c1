// The `kolo` program: one file a subcommand, each adds itself to the command line.
#include <CLI/CLI.hpp>

#include <cstdio>
#include <exception>

#include "commands.h"

int main(int argc, char** argv) {
  CLI::App app("kolo: synchronous data-parallel training for LibTorch programs", "kolo");
  app.set_version_flag("--version", "kolo " KOLO_VERSION);
  app.require_subcommand(1);
  kolo::tools::add_config_command(app);
  kolo::tools::add_engine_command(kolo::tools::add_perf_command(app));
  kolo::tools::add_data_command(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "kolo: %s\n", error.what());
    return 1;
  }
  return 0;
}
