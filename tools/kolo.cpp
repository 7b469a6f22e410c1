// The `kolo` program: one file a subcommand, each adds itself to the command line.
#include <CLI/CLI.hpp>

#include <cstdio>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "commands.h"
#include "run_shim.h"
#include "version.h"

namespace {

constexpr int kUsage = 2;  // exit status of a command line that is not understood

// The names that may come after what has been understood.
std::string commands_of(const CLI::App& app) {
  std::string names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names += (names.empty() ? "" : ", ") + command->get_name();
  }
  return names;
}

std::string explain(const CLI::App* app, const CLI::Error& error) {
  const std::vector<std::string> left = app->remaining(true);
  std::string name = app->get_name();
  for (auto chosen = app->get_subcommands(); !chosen.empty(); chosen = app->get_subcommands()) {
    app = chosen.front();
    name += " " + app->get_name();
  }
  std::string text = error.what();
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::RequiredError) && !commands_of(*app).empty()) {
    text = (left.empty() ? "the command is missing" : "unknown command '" + left.front() + "'") +
           "; commands: " + commands_of(*app);
  } else if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError) && !left.empty()) {
    text = "unknown argument '" + left.front() + "'";
  }
  return name + ": " + text + "\nRun '" + name + " --help' for more.\n";
}

}  // namespace

int main(int argc, char** argv) {
  // One for each rank, in its place, started by mpirun: not for people.
  if (argc > 3 && argv[1] == std::string_view("rank-shim")) return kolo::tools::run_rank_shim({argv + 3, argv + argc});
  // mpirun's spelling, of an option that is kolo run's and not the program's behind it.
  char np[] = "--np";
  if (argc > 1 && argv[1] == std::string_view("run")) {
    for (int i = 2; i < argc && argv[i] != std::string_view("--"); ++i) {
      if (argv[i] == std::string_view("-np")) argv[i] = np;
    }
  }
  int status = 0;
  CLI::App app("kolo: synchronous data-parallel training for LibTorch programs", "kolo");
  app.set_version_flag("--version", kolo::tools::version_text);
  app.require_subcommand(1);
  app.failure_message(explain);
  kolo::tools::add_checkpoint_command(app);
  kolo::tools::add_config_command(app);
  kolo::tools::add_engine_command(kolo::tools::add_perf_command(app));
  kolo::tools::add_data_command(app);
  kolo::tools::add_run_command(app, status);
  kolo::tools::add_scaling_command(app, status);
  kolo::tools::add_trace_command(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kUsage;  // 0: help, or the version
  } catch (const std::exception& error) {
    std::fprintf(stderr, "kolo: %s\n", error.what());
    return 1;
  }
  return status;
}
