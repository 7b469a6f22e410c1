// `kolo checkpoint`: looks at folders of checkpoints.
#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/strings.h"
#include "commands.h"
#include "kolo/checkpoint.h"
#include "kolo/error.h"
#include "run_options.h"

namespace kolo::tools {
namespace {

namespace fs = std::filesystem;
using checkpoint::Checkpoint;
using checkpoint::CheckpointDirectory;

struct Arguments {
  std::string folder;
  bool json = false;
  int keep = 3;
  std::string keep_one_per;
};

std::uint64_t bytes_of(const Checkpoint& checkpoint) {
  std::uint64_t bytes = 0;
  for (const checkpoint::WrittenFile& file : checkpoint.files) bytes += file.size;
  return bytes;
}

// "2026-11-30 12:00:00" in UTC; "-" if it is not known.
std::string time_text(std::int64_t seconds) {
  const std::time_t time = seconds;
  std::tm parts{};
  std::array<char, 32> text{};
  if (seconds == 0 || ::gmtime_r(&time, &parts) == nullptr) return "-";
  std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S", &parts);
  return text.data();
}

// One part of several, if hosts do not share the folder.
std::string notes_of(const Checkpoint& checkpoint) {
  const auto& metadata = checkpoint.info.metadata;
  const auto entry = [&](const char* name) {
    const auto found = metadata.find(name);
    return found == metadata.end() ? std::string("1") : found->second;
  };
  std::string notes = checkpoint.info.finite ? "" : "not finite";
  if (entry("kolo.parts") != "1") {
    notes += (notes.empty() ? "" : ", ") + ("part " + entry("kolo.part") + " of " + entry("kolo.parts"));
  }
  return notes;
}

void list(const Arguments& arguments) {
  if (!fs::is_directory(arguments.folder)) throw UsageError(arguments.folder + " is no folder");
  const auto checkpoints = CheckpointDirectory(arguments.folder).list();
  if (arguments.json) {
    for (const Checkpoint& each : checkpoints) {
      const nlohmann::ordered_json line = {{"step", each.info.step},        {"folder", each.folder.string()},
                                           {"time", each.info.time},        {"bytes", bytes_of(each)},
                                           {"files", each.files.size()},    {"finite", each.info.finite},
                                           {"metadata", each.info.metadata}};
      std::printf("%s\n", line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
    }
    return;
  }
  std::printf("%12s  %-19s  %5s  %12s\n", "step", "saved (UTC)", "files", "MB");
  for (const Checkpoint& each : checkpoints) {
    std::printf("%12lld  %-19s  %5zu  %12.1f  %s\n", static_cast<long long>(each.info.step),
                time_text(each.info.time).c_str(), each.files.size(), 1e-6 * static_cast<double>(bytes_of(each)),
                notes_of(each).c_str());
  }
}

// The folder of one checkpoint, or all in a folder of checkpoints.
std::vector<fs::path> checkpoints_in(const fs::path& folder) {
  if (fs::exists(folder / "manifest.json")) return {folder};
  std::vector<fs::path> folders;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().filename().string().starts_with("checkpoint-")) folders.push_back(entry.path());
  }
  std::sort(folders.begin(), folders.end());
  if (folders.empty()) throw UsageError(folder.string() + " has no checkpoint");
  return folders;
}

void verify(const Arguments& arguments) {
  std::size_t damaged = 0;
  const auto folders = checkpoints_in(arguments.folder);
  for (const fs::path& folder : folders) {
    try {
      const Checkpoint checkpoint = CheckpointDirectory::verify(folder);
      std::printf("%s: %s, good\n", folder.c_str(), base::counted(checkpoint.files.size(), "file").c_str());
    } catch (const BackendError& error) {
      ++damaged;
      std::printf("%s: DAMAGED: %s\n", folder.c_str(), error.what());
    }
  }
  if (damaged > 0) {
    throw BackendError(std::to_string(damaged) + " of " + base::counted(folders.size(), "checkpoint") + " damaged");
  }
}

void prune(const Arguments& arguments) {
  checkpoint::CheckpointOptions options{.keep = arguments.keep};
  if (!arguments.keep_one_per.empty()) {
    options.keep_one_per = std::chrono::duration_cast<std::chrono::seconds>(parse_duration(arguments.keep_one_per));
  }
  if (!fs::is_directory(arguments.folder)) throw UsageError(arguments.folder + " is no folder");
  CheckpointDirectory directory(arguments.folder, options);
  (void)directory.lock();
  const auto before = directory.list();
  if (before.empty()) throw UsageError(arguments.folder + " has no checkpoint");
  (void)CheckpointDirectory::verify(before.back().folder);  // throws: the others may be needed
  directory.prune(before.back().folder);
  for (const Checkpoint& each : before) {
    if (!fs::exists(each.folder)) std::printf("deleted %s\n", each.folder.c_str());
  }
}

CLI::App* add(CLI::App* group, const char* name, const char* what, const std::shared_ptr<Arguments>& arguments,
              void (*run)(const Arguments&)) {
  CLI::App* command = group->add_subcommand(name, what);
  command->add_option("FOLDER", arguments->folder, "Folder of checkpoints")->required()->type_name("");
  command->callback([arguments, run] { run(*arguments); });
  return command;
}

}  // namespace

void add_checkpoint_command(CLI::App& app) {
  CLI::App* group = app.add_subcommand("checkpoint", "List, verify or delete checkpoints");
  group->require_subcommand(1);
  const auto arguments = std::make_shared<Arguments>();  // shared with the callbacks, which outlive this call
  add(group, "list", "List the checkpoints of a folder by step", arguments, list)
      ->add_flag("--json", arguments->json, "Print a line of JSON for each checkpoint");
  add(group, "verify", "Compare all files with their checksums; exit status 1 if one is damaged", arguments, verify);
  CLI::App* command = add(group, "prune", "Delete old checkpoints; refused while a run writes there", arguments, prune);
  command->add_option("--keep", arguments->keep, "Number of checkpoints that stay, from the highest step")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  command->add_option("--keep-one-per", arguments->keep_one_per, "Also keep the first one of each such time, e.g. 24h");
}

}  // namespace kolo::tools
