#include "failure.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "kolo/error.h"
#include "ranks.h"

namespace imagenet {
namespace {

// After these the group is at an end, and some ranks may be gone.
bool ends_the_group(const std::exception& error) {
  return dynamic_cast<const kolo::PeerLostError*>(&error) != nullptr ||
         dynamic_cast<const kolo::TimeoutError*>(&error) != nullptr ||
         dynamic_cast<const kolo::BackendError*>(&error) != nullptr;
}

void print(const std::string& text) { std::fprintf(stderr, "imagenet_resnet50: %s\n", text.c_str()); }

}  // namespace

std::string summary_of(const std::vector<std::string>& texts) {
  std::vector<std::pair<std::string, std::vector<std::size_t>>> groups;
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    if (texts[rank].empty()) continue;
    auto group =
        std::find_if(groups.begin(), groups.end(), [&](const auto& known) { return known.first == texts[rank]; });
    if (group == groups.end()) group = groups.insert(group, {texts[rank], {}});
    group->second.push_back(rank);
  }
  std::string summary;
  for (const auto& [text, ranks] : groups) {
    if (!summary.empty()) summary += '\n';
    if (ranks.size() < texts.size()) {
      for (std::size_t i = 0; i < ranks.size(); ++i) {
        summary += (i > 0 ? ", " : ranks.size() == 1 ? "rank " : "ranks ") + std::to_string(ranks[i]);
      }
      summary += ": ";
    }
    summary += text;
  }
  return summary;
}

void report_failure(kolo::Context& context, const std::exception& error) {
  if (!ends_the_group(error)) {
    try {
      const auto texts = gather(context, error.what());
      if (context.rank() == 0) print(summary_of(texts));
      return;
    } catch (const std::exception&) {
      // A rank has ended meanwhile: each for itself.
    }
  }
  print("rank " + std::to_string(context.rank()) + ": " + error.what());
}

}  // namespace imagenet
