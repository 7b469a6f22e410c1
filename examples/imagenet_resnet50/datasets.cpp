#include "datasets.h"

#include <algorithm>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <string_view>
#include <utility>

#include "failure.h"
#include "kolo/data/fingerprint.h"
#include "kolo/error.h"
#include "ranks.h"

namespace imagenet {
namespace {

namespace data = kolo::data;
namespace fs = std::filesystem;

void note(std::vector<std::string>& notes, const data::ImageFolder& folder, const std::string& part) {
  const auto lines = data::describe(folder.listing(), part);
  notes.insert(notes.end(), lines.begin(), lines.end());
}

DatasetPtr made_up(const Options& options, std::int64_t images) {
  data::SyntheticJpegOptions synthetic;
  synthetic.size = images;
  synthetic.classes = options.classes;
  synthetic.seed = options.seed;
  return std::make_shared<data::SyntheticJpegs>(synthetic);
}

std::string size_of(const data::Dataset* dataset) {
  if (dataset == nullptr) return "none";
  return std::to_string(dataset->size()) + " samples of " + std::to_string(dataset->classes()) + " classes";
}

// A fact a line: the classes, then the samples. A name holds no NUL.
std::string facts_of(const data::Dataset* dataset) {
  std::string facts;
  if (dataset == nullptr) return facts;
  for (std::int64_t label = 0; label < dataset->classes(); ++label) {
    facts += "class " + std::to_string(label) + " is '" + dataset->class_name(label) + "'" + '\0';
  }
  for (std::int64_t index = 0; index < dataset->size(); ++index) {
    facts += "sample " + std::to_string(index) + " is '" + dataset->name(index) + "' of class '" +
             dataset->class_name(dataset->label(index)) + "'" + '\0';
  }
  return facts;
}

std::string_view line_at(std::string_view facts, std::size_t at) {
  const std::string_view line = facts.substr(at, facts.find('\0', at) - at);
  return line.empty() ? "no further class or sample" : line;
}

// "sample 3 is 'a' on rank 0, sample 3 is 'b' on rank ": the number is the caller's. Empty: none.
std::string first_difference(std::string_view first, std::string_view mine) {
  const auto [at, end] = std::ranges::mismatch(first, mine);
  if (at == first.end() && end == mine.end()) return {};
  const auto place = static_cast<std::size_t>(at - first.begin());
  const auto before = place == 0 ? std::string_view::npos : first.rfind('\0', place - 1);
  const auto line = before == std::string_view::npos ? 0 : before + 1;
  return std::string(line_at(first, line)) + " on rank 0, " + std::string(line_at(mine, line)) + " on rank ";
}

// Fingerprints go round first; all names only if these differ. Returns the fingerprint, of zeros if there is no
// dataset.
data::Fingerprint compare(kolo::Context& context, const std::string& part, const data::Dataset* dataset) {
  std::string mine;
  data::Fingerprint print;
  if (dataset != nullptr) {
    print = data::fingerprint(*dataset);
    mine = std::to_string(print.classes) + " " + std::to_string(print.class_names) + " " +
           std::to_string(print.samples) + " " + std::to_string(print.sample_names);
  }
  const auto prints = gather(context, mine);
  const auto other = std::ranges::find_if(prints, [&](const std::string& print) { return print != prints[0]; });
  if (other == prints.end()) return print;
  const auto rank = static_cast<std::size_t>(other - prints.begin());
  const auto sizes = gather(context, size_of(dataset));
  const std::string first = from_rank_0(context, [&] { return facts_of(dataset); });
  const auto differences = gather(context, first_difference(first, facts_of(dataset)));
  const std::string number = std::to_string(rank);
  throw kolo::MismatchError("the data sets differ: of " + part + " rank 0 has " + sizes[0] + ", rank " + number +
                            " has " + sizes[rank] + ". The first difference: " + differences[rank] + number +
                            ". All hosts need the same files under --data");
}

struct Opened {
  DatasetPtr dataset;
  data::Fingerprint fingerprint;
};

// The error of one rank is thrown on all.
Opened open(kolo::Context& context, const std::string& part, const std::function<DatasetPtr()>& make) {
  DatasetPtr dataset;
  std::string trouble;
  try {
    dataset = make();
  } catch (const std::exception& error) {
    trouble = error.what();
  }
  const std::string troubles = summary_of(gather(context, trouble));
  if (!troubles.empty()) throw kolo::UsageError(troubles);
  const data::Fingerprint print = compare(context, part, dataset.get());
  return {std::move(dataset), print};
}

}  // namespace

Datasets open_datasets(kolo::Context& context, const Options& options) {
  Datasets sets;
  if (options.data_kind == DataKind::synthetic_jpeg) {
    sets.train = made_up(options, options.synthetic_images);
    sets.validation = made_up(options, std::clamp<std::int64_t>(options.synthetic_images / 10, 1, 50000));
  }
  if (options.data_kind != DataKind::folder) return sets;
  std::vector<std::string> class_names;
  const auto [train, print] = open(context, "train/", [&] {
    const auto folder = std::make_shared<data::ImageFolder>(fs::path(options.data) / "train");
    note(sets.notes, *folder, "train/");
    class_names = folder->class_names();
    return folder;
  });
  sets.train = train;
  sets.fingerprint = {{"class_names", std::to_string(print.class_names)},
                      {"samples", std::to_string(print.samples)},
                      {"sample_names", std::to_string(print.sample_names)}};
  sets.validation = open(context, "val/", [&]() -> DatasetPtr {
                      const fs::path val = fs::path(options.data) / "val";
                      if (fs::symlink_status(val).type() == fs::file_type::not_found) return nullptr;
                      const auto folder = std::make_shared<data::ImageFolder>(val, class_names);
                      note(sets.notes, *folder, "val/");
                      return folder;
                    }).dataset;
  return sets;
}

}  // namespace imagenet
