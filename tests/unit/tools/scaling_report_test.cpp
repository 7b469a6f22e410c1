#include "scaling_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kolo/error.h"
#include "scaling_charts.h"
#include "scaling_made_results.h"

namespace kolo::tools {
namespace {

using nlohmann::ordered_json;
using test::hosts_row;
using test::made_results;
using test::made_row;
using test::peer_row;
using test::sync_off_row;
using test::with_efficiency;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// The JSON that the page holds for its charts.
ordered_json data_in(const std::string& page) {
  const std::string begin = R"(<script type="application/json" id="data">)";
  const std::size_t at = page.find(begin) + begin.size();
  return ordered_json::parse(page.substr(at, page.find("</script>", at) - at));
}

std::size_t count_of(const std::string& text, const std::string& word) {
  std::size_t count = 0;
  for (std::size_t at = 0; (at = text.find(word, at)) != std::string::npos; at += word.size()) ++count;
  return count;
}

TEST(ReportPage, HoldsSentencesTablesAndLicence) {
  const auto page = report_page(made_results({made_row(1, 190), with_efficiency(made_row(2, 304), 190)}));
  EXPECT_THAT(page, AllOf(HasSubstr("<li>2 ranks: scaling efficiency 62 %."),
                          HasSubstr("<td>2 ranks</td><td>304 [296.4, 311.6]</td>"), HasSubstr("weak scaling"),
                          HasSubstr("(c) 2022 Chart.js Contributors"), HasSubstr("Released under the MIT License")));
  EXPECT_THAT(page, Not(HasSubstr("{{")));
}

TEST(ReportPage, TextsOfUsersEndNoElement) {
  const std::string hostile = "</script><!--<img src=x onerror=alert(1)>{{data}}\"'&";
  ordered_json results = made_results({made_row(1, 190), made_row(2, 300)});
  const std::size_t scripts = count_of(report_page(results), "<script");
  results["command"] = {hostile};
  results["environment"]["cpu"] = hostile;
  results["environment"][hostile] = hostile;
  results["missing_peers"] = {{hostile, hostile}};
  for (ordered_json& row : results["rows"]) {
    row["name"] = hostile;
    row["warnings"] = {hostile};
  }
  const std::string page = report_page(results);
  EXPECT_THAT(page, AllOf(Not(HasSubstr("<img")), Not(HasSubstr("<!--<"))));
  EXPECT_EQ(count_of(page, "<script"), scripts);
  EXPECT_EQ(count_of(page, "</script>"), scripts);
  EXPECT_EQ(data_in(page).at("parts").at("rows").at(0).at("name"), hostile);
}

TEST(ReportPage, IncompleteRowsAndMissingPeersAreNamed) {
  ordered_json results = made_results({made_row(1, 190)});
  results["rows"][0]["runs"] = {{190.0}};
  results["rows"][0]["warnings"] = {"a warning"};
  results["missing_peers"] = {{"ddp", "python3 has no PyTorch."}};
  EXPECT_THAT(report_page(results), AllOf(HasSubstr("<td>1 rank (1)</td>"), HasSubstr("<li>(1) a warning</li>"),
                                          HasSubstr("<li>1 rank: 1 of 3 runs</li>"),
                                          HasSubstr("<li>Not measured: ddp. python3 has no PyTorch.</li>")));
}

TEST(ReportPage, WithoutRowsIsComplete) {
  EXPECT_THAT(report_page(made_results({})), AllOf(HasSubstr("</html>"), HasSubstr("Chart.js")));
}

TEST(ReportPage, SlowestRankOfEachRowIsATable) {
  ordered_json row = made_row(4, 300);
  row["slowest_rank"] = {{"rank", 3}, {"share_of_steps", 0.9}};
  row["parts"]["slowest_wait_ms"] = 12.5;
  EXPECT_THAT(report_page(made_results({made_row(1, 200), row})),
              HasSubstr("<td>4 ranks</td><td>3</td><td>90 %</td><td>12.5</td>"));
  EXPECT_THAT(report_page(made_results({made_row(1, 200)})), Not(HasSubstr("Slowest rank")));
}

TEST(ChartsOf, EfficiencyHasASeriesForEachProgramAndKindOfHosts) {
  const ordered_json four = with_efficiency(hosts_row(4, "1gbit", 800), 200);
  const auto results = made_results({made_row(1, 200), peer_row(made_row(1, 200), "ddp", "PyTorch DDP", 1.1),
                                     with_efficiency(made_row(2, 250), 200), sync_off_row(2, 210), four,
                                     with_efficiency(peer_row(four, "ddp", "PyTorch DDP", 1.5), 220)});
  std::vector<std::string> points;
  const ordered_json all_series = charts_of(results).at("efficiency").at("series");
  for (const auto& series : all_series) {
    for (const auto& point : series.at("points")) {
      points.push_back(series.at("program_name").get<std::string>() + ", " +
                       series.at("group_name").get<std::string>() + " " + point.at("ranks").dump() + " " +
                       std::to_string(point.at("efficiency").at("value").get<double>()).substr(0, 5));
    }
  }
  EXPECT_THAT(points,
              ElementsAre("kolo, this host 1 1.000", "kolo, this host 2 0.800", "kolo, emulated hosts, 1gbit 1 1.000",
                          "kolo, emulated hosts, 1gbit 4 0.250", "PyTorch DDP, emulated hosts, 1gbit 1 1.000",
                          "PyTorch DDP, emulated hosts, 1gbit 4 0.183"));
}

TEST(ChartsOf, PartsAreOfDefaultsAndSyncOff) {
  ordered_json ablation = made_row(2, 240);
  ablation["variant"] = "bucket 4M";
  const auto parts = charts_of(made_results({made_row(1, 200), made_row(2, 250), sync_off_row(2, 210), ablation,
                                             peer_row(made_row(2, 250), "mpi", "flat MPI", 2)}))
                         .at("parts");
  ASSERT_EQ(parts.at("rows").size(), 3U);
  EXPECT_EQ(parts.at("rows").at(2).at("name"), "2 ranks, sync off");
  EXPECT_EQ(parts.at("rows").at(1).at("values"), (std::vector<double>{200, 42, 8, 0, 0, 0}));
}

TEST(ChartsOf, PeersHaveAStepOrNullForEachCount) {
  const auto peers =
      charts_of(made_results({made_row(1, 200), peer_row(made_row(1, 200), "ddp", "PyTorch DDP", 1.1), made_row(2, 250),
                              peer_row(made_row(2, 250), "mpi", "MPI", 2), made_row(4, 300)}))
          .at("peers");
  EXPECT_EQ(peers.at("counts"), (std::vector<std::string>{"1 rank", "2 ranks"}));
  ASSERT_EQ(peers.at("series").size(), 3U);
  EXPECT_EQ(peers.at("series").at(0).at("steps").at(1).at("value"), 250);
  EXPECT_TRUE(peers.at("series").at(1).at("steps").at(1).is_null());
  EXPECT_EQ(peers.at("series").at(2).at("steps").at(1).at("value"), 500);
}

TEST(ComparePage, HoldsChangesAndNotes) {
  ordered_json before = made_results({made_row(1, 200), made_row(2, 300)});
  for (ordered_json& row : before["rows"])
    row["runs"] = std::vector(3, std::vector<double>(20, row["step_ms"]["value"]));
  ordered_json after = before;
  after["rows"][1]["runs"] = std::vector(3, std::vector<double>(20, 330.0));
  after["rows"][1]["step_ms"] = test::interval(330);
  after["environment"]["cpu"] = "<b>";
  const std::string page = compare_page(before, after);
  EXPECT_THAT(page, AllOf(HasSubstr("<li>2 ranks: 10.0 % slower.</li>"), HasSubstr("Faster: 0. Slower: 1."),
                          HasSubstr("cpu differs"), Not(HasSubstr("<b>"))));
  EXPECT_EQ(data_in(page).at("changes").at("after").at(1).at("value"), 330);
  after["rows"] = ordered_json::array();
  EXPECT_THROW(static_cast<void>(compare_page(before, after)), UsageError);
}

}  // namespace
}  // namespace kolo::tools
