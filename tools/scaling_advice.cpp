#include "scaling_advice.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <optional>

#include "base/strings.h"
#include "scaling_rows.h"
#include "scaling_text.h"

namespace kolo::tools {
namespace {

using nlohmann::ordered_json;

constexpr double kGoodEfficiency = 0.95;
constexpr double kWorthNaming = 0.05;  // share of a step
constexpr double kWorthHalving = 1e6;  // bytes of a step
constexpr std::size_t kMostLimits = 3;

std::string percent(double ratio) { return printed("%.0f %%", 100 * ratio); }
std::string times(double ratio) { return printed("%.2f times", ratio); }
std::string ranks_of(const ResultRow& row) { return base::counted(row.at("ranks").get<std::size_t>(), "rank"); }

bool has_several_hosts(const ResultRow& row) {
  if (row.at("hosts").get<int>() > 0) return row.at("ranks").get<int>() > 1;
  const int local = number_of(row, "local_ranks");
  return local > 0 && local < row.at("ranks").get<int>();
}

// "4 emulated hosts, 1gbit"
std::string shown_name(const ResultRow& row) {
  std::string name = row.at("name");
  const std::size_t host = name.find("host");
  if (row.at("hosts").get<int>() > 0 && host != std::string::npos) name.insert(host, "emulated ");
  return name;
}

// What slows a row down, and the rows that it is compared with.
struct Subject {
  const ResultRow& row;
  const ResultRow* one;       // one rank; null if it was not measured
  const ResultRow* sync_off;  // the same ranks; null if they were not measured
  const ResultRow* fastest;   // the same ranks on emulated hosts, over the fastest network; null if on none
  bool strong = false;        // the global batch is the same in all rows

  [[nodiscard]] std::string name() const { return shown_name(row); }
  [[nodiscard]] double step() const { return step_ms(row); }
  [[nodiscard]] double part(const char* name) const { return part_ms(row, name).value_or(0); }
  [[nodiscard]] double efficiency() const {
    return row.contains("efficiency_to_one_rank") ? row.at("efficiency_to_one_rank").at("value").get<double>() : 0;
  }
  // Time that the ranks wait for the last of them, as far as their clocks can tell.
  [[nodiscard]] double slowest_wait() const {
    const bool is_clock_error = std::ranges::any_of(row.at("warnings"), [](const ordered_json& warning) {
      return warning.get<std::string>().starts_with("(slowest)");
    });
    return is_clock_error ? 0 : std::min(part("slowest_wait_ms"), part("exposed_ms"));
  }
  [[nodiscard]] bool waits_for_slowest() const { return slowest_wait() >= 0.5 * part("exposed_ms"); }
};

struct Limit {
  double ms = 0;  // what it costs
  std::string text;
};
using Found = std::optional<Limit>;

// The time that an emulated link needs for the bytes that an allreduce sends at least; 0 if no rate is known.
double least_ms(const ResultRow& row) {
  const std::string rate = row.at("rate");
  if (rate.empty()) return 0;
  char* unit = nullptr;
  double bits = std::strtod(rate.c_str(), &unit);
  bits *= *unit == 'g' ? 1e9 : *unit == 'm' ? 1e6 : 1e3;
  const double hosts = row.at("hosts").get<double>();
  return 1e3 * 8 * row.at("reduced_bytes").get<double>() * 2 * (hosts - 1) / hosts / bits;
}

std::string headline(const Subject& subject) {
  const std::string step = ms_text(subject.step());
  if (subject.row.at("ranks") == 1) {
    return "1 rank: a step takes " + step + ". Efficiency needs a row with more ranks.";
  }
  if (subject.efficiency() == 0 || subject.one == nullptr) {
    return subject.name() + ": a step takes " + step + ". Efficiency needs the row with one rank.";
  }
  std::string text = subject.name() + ": scaling efficiency " + percent(subject.efficiency()) + ". A step takes " +
                     step + "; with one rank it takes " + ms_text(step_ms(*subject.one)) + ".";
  if (subject.efficiency() > 2 - kGoodEfficiency) return text + " Do both rows have the same threads and load?";
  if (subject.efficiency() >= kGoodEfficiency) text += " No part of the step limits the scaling.";
  return text;
}

// "a faster network (10gbit: 736 ms), ", or "" if no faster one was measured.
std::string faster_network(const Subject& subject) {
  if (subject.fastest == nullptr || !is_above(subject.row.at("step_ms"), subject.fastest->at("step_ms"))) return "";
  return "a faster network (" + subject.fastest->at("rate").get<std::string>() + ": " +
         ms_text(step_ms(*subject.fastest)) + "), ";
}

Found communication_limit(const Subject& subject) {
  const double exposed = subject.part("exposed_ms");
  const double backward = subject.part("backward_ms");
  const double communication = subject.part("communication_ms");
  if (communication <= backward || exposed < 2 * kWorthNaming * subject.step() || subject.waits_for_slowest())
    return {};
  const double bytes = subject.row.at("reduced_bytes");
  const double least = least_ms(subject.row);
  const bool is_link = least == 0 || least >= 0.5 * communication;
  std::string text = !has_several_hosts(subject.row) ? "Reductions are the limit: "
                     : is_link                       ? "The network is the limit: "
                                                     : "Messages between hosts are the limit, but not the link: ";
  text += "a step waits " + ms_text(exposed) + " (" + percent(exposed / subject.step()) + ") for reductions of " +
          bytes_text(bytes) + ". ";
  if (least > 0) {
    text += "The " + subject.row.at("rate").get<std::string>() + " link needs at least " + ms_text(least) +
            " for them; (comm.) is " + ms_text(communication) + ". ";
  }
  text += "Try " + faster_network(subject) + "more samples for each rank or a larger passes_per_step.";
  if (is_link && bytes >= kWorthHalving) {
    text += " If parameters are fp32, 16-bit parameters halve the bytes to " + bytes_text(bytes / 2) + ".";
  }
  return Limit{exposed, text};
}

// A size for KOLO_BUCKET_BYTES at which about 16 buckets are reduced.
std::string smaller_bucket(double bytes) {
  constexpr std::uint64_t kKilo = 1024;
  const std::uint64_t size =
      std::clamp(std::bit_floor(static_cast<std::uint64_t>(bytes) / 16), 64 * kKilo, 4096 * kKilo);
  return size >= kKilo * kKilo ? std::to_string(size / kKilo / kKilo) + "M" : std::to_string(size / kKilo) + "K";
}

Found overlap_limit(const Subject& subject, bool buckets_measured) {
  const double exposed = subject.part("exposed_ms");
  const double backward = subject.part("backward_ms");
  const double communication = subject.part("communication_ms");
  if (communication > backward || exposed < kWorthNaming * subject.step() || subject.waits_for_slowest()) return {};
  std::string text = "Reductions end after backward: " + ms_text(exposed) + " of " + ms_text(communication) +
                     " are exposed; backward takes " + ms_text(backward) + ". Try ";
  if (!buckets_measured) text += "KOLO_BUCKET_BYTES=" + smaller_bucket(subject.row.at("reduced_bytes")) + " or ";
  return Limit{exposed, text + "more samples for each rank."};
}

std::string crowd(const Subject& subject) {
  const int local = number_of(subject.row, "local_ranks");
  const int cores = number_of(subject.row, "local_cores");
  if (cores > 0 && local > cores) {
    return std::to_string(local) + " ranks share " + base::counted(static_cast<std::size_t>(cores), "core") + ". ";
  }
  const int machine_cores = number_of(*subject.one, "local_cores");
  const int hosts = subject.row.at("hosts");
  if (machine_cores == 0 || hosts <= machine_cores) return "";
  return std::to_string(hosts) + " emulated hosts share " +
         base::counted(static_cast<std::size_t>(machine_cores), "core") + ". ";
}

Found contention_limit(const Subject& subject) {
  if (subject.sync_off == nullptr || subject.one == nullptr) return {};
  const double ranks = subject.strong ? subject.row.at("ranks").get<double>() : 1;
  const double ideal = step_ms(*subject.one) / ranks;
  const double lost = step_ms(*subject.sync_off) - ideal;
  ordered_json ideal_step = subject.one->at("step_ms");
  if (ideal_step.at("high").is_number()) ideal_step["high"] = ideal_step.at("high").get<double>() / ranks;
  if (lost < kWorthNaming * subject.step() || !is_above(subject.sync_off->at("step_ms"), ideal_step)) return {};
  const bool is_emulated = subject.row.at("hosts").get<int>() > 0;
  const std::string text =
      "The ranks compete for cores, memory or data: with sync off a step takes " + ms_text(step_ms(*subject.sync_off)) +
      "; " + (subject.strong ? "the step of one rank, divided by the ranks, is " : "with one rank it takes ") +
      ms_text(ideal) + ". " + crowd(subject) +
      (is_emulated ? "Real hosts do not share cores." : "Try fewer ranks or fewer threads on a host.");
  return Limit{lost, text};
}

Found backward_limit(const Subject& subject) {
  if (subject.sync_off == nullptr) return {};
  const double backward = subject.part("backward_ms");
  const double alone = part_ms(*subject.sync_off, "backward_ms").value_or(backward);
  if (backward - alone < kWorthNaming * subject.step() || backward < 1.1 * alone) return {};
  const bool on_cpu = fact_of(subject.row, "device") != "cuda";
  return Limit{backward - alone, "Reductions slow down backward: it takes " + ms_text(backward) + "; with sync off " +
                                     ms_text(alone) + "." + (on_cpu ? " Try a free core for each rank." : "")};
}

Found slowest_limit(const Subject& subject) {
  const double wait = subject.slowest_wait();
  if (wait < kWorthNaming * subject.step() || !subject.waits_for_slowest() || !subject.row.contains("slowest_rank")) {
    return {};
  }
  const ordered_json& slowest = subject.row.at("slowest_rank");
  const double share = slowest.at("share_of_steps");
  const double ranks = subject.row.at("ranks");
  const std::string rank = slowest.at("rank").dump();
  const std::string takes = " takes " + ms_text(wait) + " of the " + ms_text(subject.part("exposed_ms")) + " exposed. ";
  if (share < 0.5 + 0.5 / ranks) {
    return Limit{wait, "Waiting for the last rank" + takes +
                           "The last rank changes from step to step. Give all ranks equal work in each step."};
  }
  return Limit{wait, "Rank " + rank + " is last in " + percent(share) + " of the steps. Waiting for it" + takes +
                         "Check the data and the host of rank " + rank + "."};
}

// For losses that none of the other limits explains.
Found growth_limit(const Subject& subject) {
  constexpr std::array<std::pair<const char*, const char*>, 4> kParts{
      {{"before_first_gradient_ms", "The time before the first gradient"},
       {"backward_ms", "Backward"},
       {"optimizer_ms", "The optimizer"},
       {"other_ms", "Other work, such as clipping, logging or copies,"}}};
  if (subject.one == nullptr || subject.strong) return {};
  Limit most;
  for (const auto& [part, name] : kParts) {
    const double ms = subject.part(part);
    const double of_one = part_ms(*subject.one, part).value_or(ms);
    if (ms - of_one <= most.ms) continue;
    most = {ms - of_one, std::string(name) + " grows most with the ranks: " + ms_text(ms) + "; with one rank " +
                             ms_text(of_one) + ". Look at the trace."};
  }
  return most.ms < kWorthNaming * subject.step() ? Found() : most;
}

void add_limits(const ordered_json& results, const Subject& subject, std::vector<std::string>& texts) {
  if (subject.row.at("ranks") == 1 || subject.efficiency() >= kGoodEfficiency) return;
  const bool buckets_measured = find_row(results, [](const ResultRow& row) {
                                  return row.at("variant").get<std::string>().starts_with("bucket");
                                }) != nullptr;
  std::vector<Limit> limits;
  for (Found found : {communication_limit(subject), overlap_limit(subject, buckets_measured), contention_limit(subject),
                      backward_limit(subject), slowest_limit(subject)}) {
    if (found) limits.push_back(std::move(*found));
  }
  if (Found growth = growth_limit(subject); limits.empty() && growth) limits.push_back(std::move(*growth));
  std::ranges::stable_sort(limits, std::ranges::greater(), &Limit::ms);
  limits.resize(std::min(limits.size(), kMostLimits));
  for (Limit& limit : limits) texts.push_back(std::move(limit.text));
}

// Gradients of GPUs that NCCL reduces do not take kolo's network, and NCCL's use of InfiniBand has its own warning.
void add_infiniband(const ordered_json& results, const Subject& subject, std::vector<std::string>& texts) {
  const std::string ports = results.at("environment").value("infiniband", "");
  const std::string by = fact_of(subject.row, "KOLO_DEVICE_REDUCTION");
  const bool by_nccl = fact_of(subject.row, "device") == "cuda" && by != "host" && by != "mixed";
  const bool is_real = subject.row.at("hosts") == 0;
  if (ports.empty() || by_nccl || !is_real || fact_of(subject.row, "network") != "tcp") return;
  std::string text = "This host has InfiniBand (" + ports + "), but " + ranks_of(subject.row) +
                     " exchange gradients over TCP, " + ms_text(subject.part("exposed_ms")) + " exposed. ";
  text +=
      fact_of(subject.row, "KOLO_NETWORK") == "tcp"
          ? "Unset KOLO_NETWORK: kolo then uses MPI if every host has an RDMA device."
          : "KOLO_NETWORK=auto uses MPI only if every host has an RDMA device. Check /sys/class/infiniband on each.";
  texts.push_back(text);
}

bool is_ablation(const ResultRow& row) {
  return row.contains("step_to_default") && peer_of(row).empty() && !is_sync_off(row) && !is_default(row);
}

// The fastest row with another setting, of those with the most ranks.
void add_ablation(const ordered_json& results, std::vector<std::string>& texts) {
  const auto is_faster = [](const ResultRow& row) {
    return is_ablation(row) && row.at("step_to_default").at("high").is_number() &&
           row.at("step_to_default").at("high").get<double>() < 1;
  };
  const ResultRow* const best = find_greatest(results, is_faster, [](const ResultRow& row) {
    return std::pair(row.at("ranks").get<int>(), -row.at("step_to_default").at("value").get<double>());
  });
  if (best == nullptr) return;
  std::string setting;
  for (const auto& [name, value] : best->at("environment").items()) setting += name + "=" + value.get<std::string>();
  texts.push_back("Try " + setting + ". In the row '" + name_of(*best) + "' a step takes " +
                  interval_text(best->at("step_to_default"), "%.3f") + " of the default step.");
}

// The same ranks on one host and on several: of the most ranks, and over the fastest network.
void add_one_host(const ordered_json& results, std::vector<std::string>& texts) {
  const auto on_one_host = [&](const ResultRow& row) {
    return find_row(results, [&](const ResultRow& each) {
      return is_default(each) && each.at("ranks") == row.at("ranks") && !has_several_hosts(each);
    });
  };
  const ResultRow* const apart = find_greatest(
      results,
      [&](const ResultRow& row) { return is_default(row) && has_several_hosts(row) && on_one_host(row) != nullptr; },
      [](const ResultRow& row) { return std::pair(row.at("ranks").get<int>(), -step_ms(row)); });
  if (apart == nullptr) return;
  const ResultRow* const together = on_one_host(*apart);
  if (!is_above(apart->at("step_ms"), together->at("step_ms"))) return;
  texts.push_back("One large machine is faster than several small ones: a step of " + ranks_of(*apart) + " takes " +
                  ms_text(step_ms(*together)) + " on one host, and " + ms_text(step_ms(*apart)) + " on " +
                  shown_name(*apart) + " (" + times(step_ms(*apart) / step_ms(*together)) + ").");
}

// "A, B and C"
std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const bool is_last = i + 1 == names.size();
    text += (i == 0 ? "" : is_last ? " and " : ", ") + names[i];
  }
  return text;
}

// The peers of the subject, or of the most ranks that have some.
void add_peers(const ordered_json& results, const Subject& subject, std::vector<std::string>& texts) {
  const ResultRow* const largest = find_greatest(
      results, [](const ResultRow& row) { return !peer_of(row).empty() && row.contains("step_to_default"); },
      [&](const ResultRow& row) { return std::pair(row.at("ranks").get<int>(), have_same_ranks(row, subject.row)); });
  if (largest == nullptr) return;
  std::vector<std::string> slower, equal, faster;  // than kolo
  for (const ResultRow& row : results.at("rows")) {
    if (peer_of(row).empty() || !have_same_ranks(row, *largest) || !row.contains("step_to_default")) continue;
    const ordered_json& ratio = row.at("step_to_default");
    const ResultRow* const kolo =
        find_row(results, [&](const ResultRow& each) { return is_default(each) && have_same_ranks(each, row); });
    const bool comparable = kolo != nullptr && fact_of(*kolo, "threads") == fact_of(row, "threads");
    if (!comparable || !ratio.at("high").is_number()) continue;  // without an upper end, noise is unknown
    const std::string title = row.at("variant");
    constexpr double kShown = 1.005;  // a smaller ratio would be printed as 1.00
    if (ratio.at("low").get<double>() > 1 && ratio.at("value").get<double>() >= kShown) {
      slower.push_back(times(ratio.at("value")) + " as fast as " + title);
    } else if (ratio.at("high").get<double>() < 1) {
      faster.push_back(title + " is faster than kolo: its step takes " + interval_text(ratio, "%.2f") + " of kolo's");
    } else {
      equal.push_back(title);
    }
  }
  std::string text;
  for (const std::string& sentence : faster) text += sentence + ". ";
  if (!slower.empty()) text += "kolo's step is " + listed(slower) + ". ";
  if (!equal.empty()) text += "No difference beyond noise: " + listed(equal) + ". ";
  if (text.empty()) return;
  text.pop_back();
  texts.push_back(shown_name(*largest) + ": " + text);
}

const ResultRow* fastest_network(const ordered_json& results, const ResultRow& like) {
  return find_greatest(
      results,
      [&](const ResultRow& row) {
        return is_default(row) && row.at("hosts") == like.at("hosts") && row.at("ranks") == like.at("ranks") &&
               row.at("rate") != "";
      },
      [](const ResultRow& row) { return -step_ms(row); });
}

// Of the rows with the most ranks the slowest.
const ResultRow* largest_row(const ordered_json& results) {
  return find_greatest(results, is_default,
                       [](const ResultRow& row) { return std::pair(row.at("ranks").get<int>(), step_ms(row)); });
}

}  // namespace

std::vector<std::string> advice(const ordered_json& results) {
  const ResultRow* const row = largest_row(results);
  if (row == nullptr) return {};
  const Subject subject{
      *row, find_row(results, [](const ResultRow& each) { return is_default(each) && each.at("ranks") == 1; }),
      find_row(results, [&](const ResultRow& each) { return is_sync_off(each) && have_same_ranks(each, *row); }),
      fastest_network(results, *row), results.at("scaling") == "strong"};
  std::vector<std::string> texts{headline(subject)};
  add_limits(results, subject, texts);
  add_infiniband(results, subject, texts);
  add_ablation(results, texts);
  add_one_host(results, texts);
  add_peers(results, subject, texts);
  return texts;
}

}  // namespace kolo::tools
