// `kolo data`: makes data sets to train on.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>

#include "commands.h"
#include "kolo/data/synth.h"

namespace kolo::tools {
namespace {

struct Synth {
  std::string folder;
  data::SynthOptions options;
  bool quiet = false;
};

void run(const Synth& synth) {
  const bool terminal = ::isatty(STDERR_FILENO) != 0;
  const auto progress = [&](std::int64_t done, std::int64_t total) {
    if (terminal && (done % 64 == 0 || done == total)) {
      std::fprintf(stderr, "\r%lld of %lld images", static_cast<long long>(done), static_cast<long long>(total));
      if (done == total) std::fputc('\n', stderr);
    }
  };
  const bool written = synth.quiet ? data::write_synthetic_folder(synth.folder, synth.options)
                                   : data::write_synthetic_folder(synth.folder, synth.options, progress);
  if (synth.quiet) return;
  std::printf("%s: %lld training and %lld validation images of %d classes%s\n", synth.folder.c_str(),
              static_cast<long long>(synth.options.images), static_cast<long long>(synth.options.val_images),
              synth.options.classes, written ? "" : " already exist");
}

}  // namespace

void add_data_command(CLI::App& app) {
  CLI::App* data = app.add_subcommand("data", "Create data sets");
  data->require_subcommand(1);
  CLI::App* command = data->add_subcommand(
      "synth", "Write class folders of synthetic JPEG files that a network can learn: DIR/{train,val}/<class>");
  auto synth = std::make_shared<Synth>();  // shared with the callback, which outlives this call
  data::SynthOptions& options = synth->options;
  command->add_option("DIR", synth->folder, "Folder to create; unchanged if it already holds the same images")
      ->required();
  command->add_option("--classes", options.classes, "Number of classes")->capture_default_str();
  command->add_option("--images", options.images, "Total number of training images")->capture_default_str();
  command->add_option("--val-images", options.val_images, "Total number of validation images; 0: none")
      ->capture_default_str();
  command->add_option("--size", options.image_size, "Pixels of the shorter side")->capture_default_str();
  command->add_option("--seed", options.seed, "Seed of the images")->capture_default_str();
  command->add_option("--threads", options.threads, "Number of threads; 0: OMP_NUM_THREADS, or one for each core")
      ->capture_default_str();
  command->add_flag("--quiet", synth->quiet, "Print nothing");
  command->callback([synth] { run(*synth); });
}

}  // namespace kolo::tools
