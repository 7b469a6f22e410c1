#include "torch/rank_reports.h"

#include <sstream>

namespace kolo {
namespace {

using checkpoint::WrittenFile;

RankReport parse(const std::string& text) {
  RankReport report;
  std::istringstream words(text);
  if (words >> report.round >> report.step >> report.layout >> report.finite >> report.host) {
    report.files = files_of(text.substr(text.find('\n') + 1));
  } else {
    report.failure = text;
  }
  return report;
}

std::string difference(const RankReport& report, const RankReport& first) {
  if (!report.failure.empty()) return report.failure;
  if (report.round != first.round || report.step != first.step) {
    return "is in step " + std::to_string(report.step) + ", rank 0 in step " + std::to_string(first.step) +
           ". Do all ranks call step() after each optimizer step?";
  }
  if (report.layout != first.layout) return "has other tensors than rank 0. Do all ranks add the same?";
  return {};
}

}  // namespace

std::string to_lines(const std::vector<WrittenFile>& files) {
  std::ostringstream lines;
  for (const WrittenFile& file : files) lines << file.size << ' ' << file.checksum << ' ' << file.name << '\n';
  return lines.str();
}

std::vector<WrittenFile> files_of(const std::string& lines) {
  std::vector<WrittenFile> files;
  std::istringstream text(lines);
  for (WrittenFile file; text >> file.size >> file.checksum && text.get() && std::getline(text, file.name);) {
    files.push_back(file);
  }
  return files;
}

std::string to_text(const RankReport& report) {
  if (!report.failure.empty()) return "failed: " + report.failure;  // begins with no number
  std::ostringstream text;
  text << report.round << ' ' << report.step << ' ' << report.layout << ' ' << report.finite << ' ' << report.host
       << '\n'
       << to_lines(report.files);
  return text.str();
}

ReportSummary summarize(const std::vector<std::string>& texts, const std::function<bool(int host)>& with_files_of) {
  ReportSummary summary;
  RankReport first;
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    const RankReport report = parse(texts[rank]);
    if (rank == 0) first = report;
    if (const std::string what = difference(report, first); !what.empty()) {
      summary.failure = "rank " + std::to_string(rank) + " " + what;
      return summary;
    }
    summary.finite &= report.finite;
    if (with_files_of(report.host)) {
      summary.files.insert(summary.files.end(), report.files.begin(), report.files.end());
    }
  }
  return summary;
}

}  // namespace kolo
