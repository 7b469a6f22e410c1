// `kolo scaling`: how well a program scales, and where the time goes.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <sstream>

#include "commands.h"
#include "kolo/error.h"
#include "run_options.h"
#include "scaling_compare.h"
#include "scaling_gpus.h"
#include "scaling_job.h"
#include "scaling_peers.h"
#include "scaling_plan.h"
#include "scaling_report.h"
#include "scaling_results.h"
#include "scaling_run.h"
#include "version.h"

namespace kolo::tools {
namespace {

constexpr const char* kFooter = R"(Examples:
  kolo scaling --ranks 1,2,4 --items-per-step 32 -- ./train --batch 32
  kolo scaling --hosts 2,4 --rate 1gbit,10gbit --ablate bucket,overlap -- ./train
  kolo scaling --ranks 1,2 --peers ddp,mpi -- imagenet_resnet50 --data synthetic:device --threads 1
  kolo scaling --gpus all
  kolo scaling --compare before/ after/ --out changes/

The program trains with a kolo::DistributedOptimizer; it needs no other change. Each row of the table is a
number of ranks; `sync off` rows run the same ranks without reducing gradients. A job is ended when every
rank has recorded --steps steps. The report, index.html in the folder of --out, shows the results as charts.
docs/scaling.md explains the columns.)";

struct Arguments {
  ScalingOptions options;
  std::string ranks;
  std::string hosts;
  std::string rates;
  std::string ablate;
  std::optional<std::string> peers;
  std::string python = "python3";
  std::string gpus;
  std::string timeout = "300s";
  std::string budget;
  bool dry_run = false;
  std::vector<std::string> compare;
};

void add_options(CLI::App& app, Arguments& a) {
  app.add_option("--ranks", a.ranks, "Numbers of ranks on this host; a row with one rank is added")->type_name("1,2,4");
  app.add_option("--hosts", a.hosts, "Numbers of emulated hosts, a rank on each; needs root")->type_name("2,4");
  app.add_option("--rate", a.rates, "Link bandwidths of emulated hosts; default: not shaped")
      ->type_name("1gbit,10gbit");
  app.add_option("--gpus", a.gpus,
                 "Measure 1, 2, 4, ... GPUs of this host, by default for 20 minutes; if PROGRAM is missing, "
                 "imagenet_resnet50 and PyTorch DDP")
      ->type_name("all|N");
  app.add_option("--ablate", a.ablate, "Add rows that each change one setting of kolo")
      ->type_name("bucket,overlap,algorithm");
  app.add_option("--peers", a.peers, "Add rows of imagenet_resnet50 without kolo; a missing peer is named and left out")
      ->type_name("ddp,mpi,loop,torchfort");
  app.add_option("--python", a.python, "Python of the peer ddp, with PyTorch")
      ->capture_default_str()
      ->type_name("PROGRAM");
  app.add_option("--repeat", a.options.repeat, "Runs of each row, interleaved")->capture_default_str()->type_name("N");
  app.add_option("--steps", a.options.steps, "Steps of a run, including --warmup")
      ->capture_default_str()
      ->type_name("N");
  app.add_option("--warmup", a.options.warmup, "First steps of a run, left out")->capture_default_str()->type_name("N");
  app.add_option("--items-per-step", a.options.items_per_step, "Samples that one rank processes in a step")
      ->type_name("N");
  app.add_option("--global-batch", a.options.global_batch,
                 "Strong scaling: samples of all ranks in a step; each rank gets an equal part by --batch-flag")
      ->type_name("N");
  app.add_option("--batch-flag", a.options.batch_flag, "Option of the program for the samples of one rank")
      ->capture_default_str()
      ->type_name("NAME");
  app.add_option(
         "--launcher", a.options.launcher,
         "Words that start the ranks of a job; {ranks} is their number, by default the last word; the program follows")
      ->default_str("kolo run -n")
      ->type_name("WORDS");
  app.add_option("--timeout", a.timeout, "Longest time to the first step, and between steps")
      ->capture_default_str()
      ->type_name("TIME");
  app.add_option("--budget", a.budget,
                 "Start no run that would end after this time, such as 20min; the same command continues")
      ->type_name("TIME");
  app.add_option("--out", a.options.out, "Folder of results and report; an interrupted command continues in it")
      ->default_val("scaling")
      ->type_name("FOLDER");
  app.add_flag("--dry-run", a.dry_run, "Print the rows and the time they take, from a run of ten steps");
  app.add_option("--compare", a.compare, "Compare the results of two folders, with --out also as a page; runs nothing")
      ->expected(2)
      ->type_name("")
      ->option_text("BEFORE AFTER");
  constexpr int kMoreThanThereAre = 1 << 28;  // the words are taken as they are: see `kolo run`
  app.add_option("PROGRAM", a.options.command, "After `--`: the program and its arguments")
      ->type_name("")
      ->option_text("...")
      ->take_all()
      ->expected(kMoreThanThereAre, -1)
      ->allow_extra_args(false);
}

// The machine, and what `kolo --version` prints.
Environment describe_environment() {
  Environment environment = describe_machine();
  environment.merge(describe_gpus());
  std::istringstream lines(version_text());
  for (std::string name, value; lines >> name && std::getline(lines >> std::ws, value);) environment[name] = value;
  return environment;
}

// What --gpus stands for, where no other option says more.
void apply_gpus(Arguments& a) {
  ScalingOptions& options = a.options;
  const int gpus = gpus_to_use(a.gpus);
  if (options.ranks.empty()) options.ranks = doubling_counts(gpus);
  if (a.budget.empty()) a.budget = "20min";
  if (!options.command.empty()) return;
  options.command = gpu_trainer();
  options.items_per_step = kImagesPerGpu;
  if (!a.peers) a.peers = "ddp";
}

std::string report_in(const std::string& folder) { return (std::filesystem::path(folder) / "index.html").string(); }

// With `out` also as OUT/index.html.
void show_comparison(const std::vector<std::string>& folders, const std::string& out) {
  const nlohmann::ordered_json before = read_results(folders[0]);
  const nlohmann::ordered_json after = read_results(folders[1]);
  std::printf("%s", table_of(comparison_of(before, after)).c_str());
  if (out.empty()) return;
  std::error_code error;
  if (std::filesystem::exists(std::filesystem::path(out) / "results.json", error)) {
    throw UsageError(out + " holds results of `kolo scaling`. Choose another folder with --out");
  }
  std::filesystem::create_directories(out, error);
  if (error) throw UsageError("cannot create " + out + ": " + error.message() + ". Choose another folder with --out");
  write_file(report_in(out), compare_page(before, after));
  std::printf("report: %s\n", report_in(out).c_str());
}

int measure(Arguments& a) {
  ScalingOptions& options = a.options;
  if (!a.ranks.empty()) options.ranks = parse_counts(a.ranks, "--ranks");
  if (!a.hosts.empty()) options.hosts = parse_counts(a.hosts, "--hosts");
  if (!a.gpus.empty()) apply_gpus(a);
  if (options.ranks.empty() && options.hosts.empty()) {
    throw UsageError("say how many ranks: --ranks 1,2,4, --gpus all or --hosts 2,4");
  }
  options.rates = split(a.rates, ',');
  options.ablate = split(a.ablate, ',');
  options.timeout = parse_duration(a.timeout);
  options.peers = find_peers(split(a.peers.value_or(""), ','), a.python);
  if (!a.budget.empty()) options.budget = parse_duration(a.budget);
  const std::vector<Row> rows = make_rows(options);
  for (const Peer& peer : options.peers) {
    if (peer.missing.empty()) continue;
    std::fprintf(stderr, "kolo scaling: peer %s is missing: %s\n", peer.name.c_str(), peer.missing.c_str());
  }
  try {
    if (a.dry_run) {
      std::printf("%s", describe_rows(options, rows).c_str());
    } else {
      run_rows(options, rows, describe_environment(), [&options](const nlohmann::ordered_json& results) {
        std::printf("%sreport: %s\n", table_of(results).c_str(), report_in(options.out).c_str());
        std::fflush(stdout);
      });
    }
  } catch (const Interrupted& interrupted) {
    std::fprintf(stderr, "kolo scaling: interrupted. Complete runs are in %s; the same command continues\n",
                 options.out.c_str());
    return 128 + interrupted.signal;
  }
  return 0;
}

}  // namespace

void add_scaling_command(CLI::App& app, int& status) {
  CLI::App* scaling = app.add_subcommand("scaling", "Measure how a program scales, and where the time of a step goes");
  auto arguments = std::make_shared<Arguments>();  // shared with the callback, which outlives this call
  add_options(*scaling, *arguments);
  scaling->footer(kFooter);
  scaling->callback([scaling, arguments, &status] {
    if (!arguments->compare.empty()) {
      show_comparison(arguments->compare, scaling->count("--out") > 0 ? arguments->options.out : "");
      return;
    }
    status = measure(*arguments);
  });
}

}  // namespace kolo::tools
