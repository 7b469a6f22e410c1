// `kolo run`: starts the ranks of a program, and says honestly how they ended.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "base/environment.h"
#include "base/strings.h"
#include "commands.h"
#include "run_launcher.h"
#include "run_line.h"
#include "run_output.h"
#include "run_reap.h"
#include "run_socket.h"
#include "run_surroundings.h"

namespace kolo::tools {
namespace {

constexpr const char* kFooter = R"(Examples:
  kolo run -n 4 -- ./train --epochs 90
  kolo run --hosts node1:8,node2:8 --interface 10.0.0.0/24 --env OMP_NUM_THREADS=4 -- ./train

Exit status: 0 if every rank ended with 0. Otherwise the status of the rank that failed first: its own exit
status, 128 + the signal that killed it, or 120 if its host was lost. 121: some ranks could not be started.
122: their output could not be written. 124: --timeout ended the job. 128 + signal: a signal ended `kolo run`.
126, 127: as in a shell.

Binding: `auto` gives each rank an equal part of this host's cores. It binds nothing if several threads would
share a core (more ranks than cores, or OMP_NUM_THREADS larger than a rank's part), on several hosts, and on
emulated hosts. Two jobs on one host both need `--bind none`, because they would take the same cores.

Environment: all ranks get KOLO_*, OMP_NUM_THREADS and the variables of --env. `kolo` and the program of the
ranks must have the same path on all hosts.)";

// For options that take a word: one that was forgotten must not be the next option, or the `--` before the program.
std::string check_word(const std::string& word) {
  return word.starts_with('-') ? "a value is missing before '" + word + "'" : std::string();
}

// A parameter may well be -1, or options for another program.
std::string check_parameter(const std::string& word) { return word == "--" ? check_word(word) : std::string(); }

// An option that takes any number of words takes a word such as `[1,2]` apart, in CLI11; one that waits for more words
// takes them as they are. So this one waits for more than a command line has.
void add_program(CLI::App& run, RunOptions& options) {
  constexpr int kMoreThanThereAre = 1 << 28;
  run.add_option("PROGRAM", options.command, "After `--`: the program and its arguments")
      ->required()
      ->type_name("")
      ->option_text("... REQUIRED")
      ->take_all()
      ->expected(kMoreThanThereAre, -1)
      ->allow_extra_args(false);
}

void add_options(CLI::App& run, RunOptions& options) {
  run.add_option("-n,--ranks,--np", options.ranks, "Number of ranks; default: the slots of --hosts")
      ->check(CLI::Range(1, 1000000))
      ->type_name("N");
  run.add_option("--hosts", options.hosts, "Hosts, and the number of ranks on each; default: this host")
      ->check(check_word)
      ->type_name("h0:2,h1:2");
  run.add_option("--hostfile", options.hostfile, "File of hosts in Open MPI's format: `h0 slots=2` on each line")
      ->check(check_word)
      ->type_name("FILE");
  run.add_option("--interface", options.interface, "Network (10.0.0.0/24) or interface (eth0) between the hosts")
      ->check(check_word)
      ->type_name("NET");
  run.add_option("--bind", options.bind, "Binding of ranks to cores: auto, core or none; see below")
      ->check(CLI::IsMember({"auto", "core", "none"}))
      ->capture_default_str()
      ->type_name("MODE");
  run.add_option("--env", options.environment, "Environment variable of every rank; may be repeated")
      ->type_size(1)
      ->allow_extra_args(false)
      ->check(check_word)
      ->type_name("NAME[=VALUE]");
  run.add_flag("--recovery", options.recovery, "If a rank fails, the other ranks continue");
  run.add_flag("--allow-lost", options.allow_lost,
               "With --recovery: killed and lost ranks do not change the exit status");
  run.add_option("--timeout", options.timeout_text, "End the job after this time: 90 (seconds), 10m, 2h")
      ->type_name("TIME");
  run.add_option("--grace", options.grace_text,
                 "Time for ranks to end by themselves after the first failure, and again after SIGTERM")
      ->capture_default_str()
      ->type_name("TIME");
  run.add_flag("--no-prefix", options.no_prefix, "Do not write [rank] before each line");
  run.add_flag("--quiet", options.quiet, "Write no summary and no remarks");
  run.add_flag("--dry-run", options.dry_run, "Print the command line of mpirun and exit");
  run.add_option("--mca", options.mca, "Parameter of Open MPI; may be repeated")
      ->allow_extra_args(false)
      ->check(check_parameter)
      ->check(CLI::Validator(check_word, "").application_index(0))
      ->type_name("KEY VALUE");
  run.add_option("--agent", options.agent, "Program that starts daemons on other hosts; default: ssh")
      ->check(check_word)
      ->type_name("PROGRAM");
  run.add_option("--mpirun", options.mpirun, "mpirun of Open MPI")
      ->check(check_word)
      ->capture_default_str()
      ->type_name("PROGRAM");
  add_program(run, options);
}

// 0: hardly any.
std::chrono::milliseconds grace_of(const std::string& text) {
  const auto grace = text == "0" ? std::chrono::milliseconds(0) : parse_duration(text);
  if (grace > std::chrono::hours(1)) throw std::invalid_argument("--grace: '" + text + "' is more than 1h");
  return grace;
}

// mpirun would refuse, or end in internal errors.
void refuse_inside_a_rank(const Surroundings& around) {
  const std::vector<std::string> names = rank_variables(around);
  if (names.empty()) return;
  throw std::runtime_error(
      "this process is a rank of a job already, and a rank cannot start a job. To start a job, unset the variables of "
      "the launcher: env -u " +
      base::join(names, " -u ") + " kolo run ...");
}

int start(const RunOptions& asked) {
  open_standard_streams();
  Surroundings around = look_around();
  RunOptions options = completed(asked, around);
  if (!options.timeout_text.empty()) options.timeout = parse_duration(options.timeout_text);
  options.grace = grace_of(options.grace_text);
  if (options.allow_lost && !options.recovery) throw std::invalid_argument("--allow-lost needs --recovery");
  if (options.dry_run) {
    around.scratch = "SCRATCH";
    std::printf("%s\n", shell_words(mpirun_line(options, around)).c_str());
    return 0;
  }
  refuse_inside_a_rank(around);
  check_mpirun(options.mpirun);
  if (around.root && !options.quiet && !base::get_environment("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM")) {
    std::fprintf(stderr, "kolo run: the user is root: added --allow-run-as-root, against the advice of Open MPI\n");
  }
  Listener listener = listen_on(own_address(options.interface, first_remote_host(options)));
  const Scratch scratch;  // after what takes time: signals are not caught before the launcher is there
  around.scratch = scratch.path();
  Launcher launcher(options, mpirun_line(options, around), std::move(listener), {random_name(), random_name()});
  return launcher.run();
}

}  // namespace

void add_run_command(CLI::App& app, int& status) {
  CLI::App* run = app.add_subcommand("run", "Start the ranks of a program and report how each rank ended");
  auto options = std::make_shared<RunOptions>();  // shared with the callback, which outlives this call
  add_options(*run, *options);
  run->footer(kFooter);
  run->callback([options, &status] {
    try {
      status = start(*options);
    } catch (const std::invalid_argument& error) {
      throw CLI::ValidationError(error.what(), CLI::ExitCodes::ValidationError);
    }
  });
}

}  // namespace kolo::tools
