// How ranks load a checkpoint:
//
//   host 0, host 1, ...   the first rank of each lists the folder; all ranks gather the lists
//   newest checkpoint     that all its parts were found of; each part's list of files is gathered
//   each file             is read and verified by one rank of a host that has it
//   a damaged file        the next older checkpoint
//   each file             is sent to all ranks, which load it
#include "torch/checkpoint_restore.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdio>
#include <set>
#include <sstream>
#include <utility>

#include "kolo/error.h"
#include "kolo/spi/communicator.h"
#include "torch/agree_on_call.h"
#include "torch/failure_text.h"
#include "torch/rank_reports.h"

namespace kolo {
namespace {

namespace fs = std::filesystem;
using checkpoint::Checkpoint;
using checkpoint::CheckpointDirectory;
using checkpoint::WrittenFile;

constexpr const char* kCall = "Checkpointer::restore";

// A file of a checkpoint, and the rank that reads it.
struct Source {
  WrittenFile file;
  Rank reader = 0;
};

struct Candidate {
  std::int64_t step = 0;
  std::string id;
  std::size_t parts = 0;
  std::map<std::size_t, std::set<int>> hosts;  // that have a part
};

std::size_t number_of(const checkpoint::Metadata& metadata, const char* name) {
  const auto found = metadata.find(name);
  std::size_t number = 0;
  if (found != metadata.end()) {
    std::from_chars(found->second.data(), found->second.data() + found->second.size(), number);
  }
  return number;
}

std::vector<Checkpoint> list_here(Context& context, const fs::path& root, std::vector<std::string>& unreadable) {
  if (context.placement().local_rank != 0) return {};
  return CheckpointDirectory(root).list(&unreadable);
}

constexpr const char* kNoId = "-";  // of a checkpoint that no Checkpointer has written

std::string id_of(const Checkpoint& checkpoint) {
  const auto found = checkpoint.info.metadata.find(kIdEntry);
  return found == checkpoint.info.metadata.end() ? kNoId : found->second;
}

// Newest first. `hosts`: of each rank.
std::vector<Candidate> gather_candidates(Context& context, const std::vector<Checkpoint>& here,
                                         const std::vector<std::string>& unreadable, std::vector<int>& hosts,
                                         std::string& skipped) {
  std::ostringstream mine;
  mine << context.placement().cross_rank << '\n';
  for (const Checkpoint& each : here) {
    mine << each.info.step << ' ' << id_of(each) << ' ' << number_of(each.info.metadata, kPartEntry) << ' '
         << number_of(each.info.metadata, kPartsEntry) << '\n';
  }
  for (std::string line : unreadable) {
    std::replace(line.begin(), line.end(), '\n', ' ');
    mine << "unreadable " << line << '\n';
  }
  std::map<std::pair<std::int64_t, std::string>, Candidate> candidates;
  for (const std::string& text : gather_texts(context, std::string(kCall) + ": list", mine.str())) {
    std::istringstream lines(text);
    hosts.push_back(0);
    lines >> hosts.back();
    std::int64_t step = 0;
    std::string id;
    for (std::size_t part = 0, parts = 0; lines >> step >> id >> part >> parts;) {
      Candidate& candidate = candidates[{step, id}];
      candidate.step = step;
      candidate.id = id;
      candidate.parts = parts;
      candidate.hosts[part].insert(hosts.back());
    }
    lines.clear();  // the end, or "unreadable"
    for (std::string line; std::getline(lines, line);) {
      if (!line.empty() && skipped.find(line) == std::string::npos) skipped += "\n  " + line;  // hosts see the same
    }
  }
  std::vector<Candidate> newest_first;
  for (auto one = candidates.rbegin(); one != candidates.rend(); ++one) newest_first.push_back(one->second);
  return newest_first;
}

// All files, each with a reader: ranks of hosts that have the part take turns. The first rank of the first such host
// knows the list.
std::vector<Source> gather_sources(Context& context, const std::vector<Checkpoint>& here, const Candidate& candidate,
                                   const std::vector<int>& hosts) {
  std::string mine;
  const int host = context.placement().cross_rank;
  for (const Checkpoint& each : here) {
    const auto& metadata = each.info.metadata;
    const auto part = candidate.hosts.find(number_of(metadata, kPartEntry));
    if (each.info.step != candidate.step || id_of(each) != candidate.id) continue;
    if (part != candidate.hosts.end() && *part->second.begin() == host) mine = to_lines(each.files);
  }
  const auto lists = gather_texts(context, std::string(kCall) + ": files", mine);
  std::vector<Source> sources;
  for (const auto& [part, having] : candidate.hosts) {
    std::vector<Rank> readers;
    for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
      if (having.contains(hosts[rank])) readers.push_back(static_cast<Rank>(rank));
    }
    const auto files = files_of(lists[static_cast<std::size_t>(readers.front())]);
    for (std::size_t i = 0; i < files.size(); ++i) sources.push_back({files[i], readers[i % readers.size()]});
  }
  return sources;
}

using Contents = std::map<std::string, std::vector<std::byte>>;

// The files that this rank reads.
void read_mine(Context& context, const fs::path& folder, const std::vector<Source>& sources, Contents& contents) {
  for (const Source& source : sources) {
    if (source.reader != context.rank()) continue;
    contents[source.file.name] = CheckpointDirectory::read(folder, source.file);
  }
}

std::string missing_parts(const Candidate& candidate) {
  if (candidate.id == kNoId) return "no Checkpointer has written it";
  if (candidate.hosts.size() == candidate.parts) return {};
  return std::to_string(candidate.hosts.size()) + " of " + std::to_string(candidate.parts) +
         " parts were found; each host had one";
}

checkpoint::CheckpointInfo info_of(const std::vector<Checkpoint>& here, const Candidate& candidate) {
  for (const Checkpoint& each : here) {
    if (each.info.step == candidate.step) return each.info;
  }
  return {};
}

std::string first_failure(Context& context, const std::string& mine) {
  const auto failures = gather_texts(context, std::string(kCall) + ": read", mine);
  const auto first = std::find_if(failures.begin(), failures.end(), [](const auto& text) { return !text.empty(); });
  return first == failures.end() ? std::string() : *first;
}

// The content of this rank's own file; empty without one.
std::string exchange_rank_files(Context& context, const std::vector<Source>& sources, Contents& contents) {
  std::string mine;
  for (const Source& source : sources) {
    const auto found = contents.find(source.file.name);
    if (found == contents.end() || !source.file.name.starts_with("rank-")) continue;
    mine += source.file.name + '\n' + std::to_string(found->second.size()) + '\n';
    mine.append(reinterpret_cast<const char*>(found->second.data()), found->second.size());
    contents.erase(found);
  }
  const std::string wanted = rank_file(context.rank());
  std::string own;
  for (const std::string& text : gather_texts(context, std::string(kCall) + ": files of ranks", mine)) {
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t name_end = text.find('\n', at);
      const std::size_t size_end = text.find('\n', name_end + 1);
      const std::size_t size = std::stoull(text.substr(name_end + 1, size_end - name_end - 1));
      if (text.compare(at, name_end - at, wanted) == 0) own = text.substr(size_end + 1, size);
      at = size_end + 1 + size;
    }
  }
  return own;
}

// "-00001-of-00002.safetensors"
bool is_part_suffix(const std::string& text) {
  const std::string pattern = "-00000-of-00000.safetensors";
  const auto fits = [](char pattern_char, unsigned char c) {
    return pattern_char == '0' ? std::isdigit(c) != 0 : pattern_char == static_cast<char>(c);
  };
  return text.size() == pattern.size() && std::equal(pattern.begin(), pattern.end(), text.begin(), fits);
}

// The item that a file belongs to: "model" for model.safetensors, model-00001-of-00002.safetensors and model.pt.
CheckpointItem* item_of(const std::string& file, const std::vector<std::unique_ptr<CheckpointItem>>& items) {
  for (const auto& item : items) {
    if (!file.starts_with(item->name())) continue;
    const std::string suffix = file.substr(item->name().size());
    if (suffix == ".safetensors" || suffix == ".pt" || is_part_suffix(suffix)) return item.get();
  }
  return nullptr;
}

void load_file(CheckpointItem& item, const std::string& name, std::vector<std::byte> content) {
  if (name.ends_with(".pt")) {
    item.load_archive({reinterpret_cast<const char*>(content.data()), content.size()});
    return;
  }
  const checkpoint::SafetensorsFile file(name, std::move(content));
  for (const checkpoint::TensorView& tensor : file.tensors()) item.load_tensor(tensor);
}

// Sends each file to all ranks and loads it. A rank that cannot load one still receives the others.
std::string load_all(Context& context, const std::vector<Source>& sources, Contents& contents,
                     const std::vector<std::unique_ptr<CheckpointItem>>& items) {
  std::string failure;
  const auto attempt = [&failure](const auto& act) {
    if (failure.empty()) failure = failure_of(act);
  };
  std::set<const CheckpointItem*> loaded;
  for (const auto& item : items) attempt([&] { item->begin_load(); });
  for (const Source& source : sources) {
    if (source.file.name.starts_with("rank-")) continue;
    CheckpointItem* const item = item_of(source.file.name, items);
    if (item == nullptr) {  // an index, or an object that the program has not added
      if (!source.file.name.ends_with(".index.json") && context.rank() == 0) {
        context.log(LogLevel::warn, "checkpoint: not loaded: " + source.file.name + ". The program has no such object");
      }
      continue;
    }
    std::vector<std::byte> content = std::move(contents[source.file.name]);
    content.resize(source.file.size);
    BroadcastOptions options;
    options.data = content.data();
    options.bytes = content.size();
    options.root = source.reader;
    context.communicator().broadcast(options, context.config().timeout);
    loaded.insert(item);
    attempt([&] { load_file(*item, source.file.name, std::move(content)); });
  }
  for (const auto& item : items) {
    attempt([&] {
      if (!loaded.contains(item.get())) throw UsageError("the checkpoint has no '" + item->name() + "'");
      item->end_load();
    });
  }
  return failure;
}

}  // namespace

std::string rank_file(int rank) {
  char name[32];
  std::snprintf(name, sizeof name, "rank-%05d.pt", rank);
  return name;
}

std::optional<RestoredCheckpoint> restore_checkpoint(Context& context, const fs::path& root,
                                                     const std::vector<std::unique_ptr<CheckpointItem>>& items,
                                                     const std::function<void(const std::string&)>& load_own) {
  std::vector<Checkpoint> here;
  std::vector<std::string> unreadable;
  agree_on_call(context, kCall, "", failure_of([&] { here = list_here(context, root, unreadable); }));
  std::vector<int> hosts;
  std::string skipped;
  for (const Candidate& candidate : gather_candidates(context, here, unreadable, hosts, skipped)) {
    std::vector<Source> sources;
    Contents contents;
    std::string reason = missing_parts(candidate);
    if (reason.empty()) {
      sources = gather_sources(context, here, candidate, hosts);
      const fs::path folder = CheckpointDirectory(root).folder_of(candidate.step);
      reason = first_failure(context, failure_of([&] { read_mine(context, folder, sources, contents); }));
    }
    if (!reason.empty()) {
      skipped += "\n  step " + std::to_string(candidate.step) + ": " + reason;
      continue;
    }
    if (!skipped.empty() && context.rank() == 0) context.log(LogLevel::warn, "checkpoint: skipped" + skipped);
    const std::string own = exchange_rank_files(context, sources, contents);
    std::string failure = load_all(context, sources, contents, items);
    if (failure.empty() && !own.empty()) failure = failure_of([&] { load_own(own); });
    agree_on_call(context, kCall, "", failure);
    const checkpoint::CheckpointInfo info = info_of(here, candidate);
    if (!info.finite && context.rank() == 0) {
      context.log(LogLevel::warn, "checkpoint: step=" + std::to_string(candidate.step) +
                                      " has weights that are not finite. To go back, remove it: kolo checkpoint list " +
                                      root.string());
    }
    return RestoredCheckpoint{candidate.step, info.metadata};
  }
  if (skipped.empty()) return std::nullopt;
  throw UsageError("Checkpointer::restore: no checkpoint in " + root.string() + " is complete:" + skipped +
                   "\nUse another folder, or remove these checkpoints to start again");
}

}  // namespace kolo
